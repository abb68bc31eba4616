//! `mortise explain`: fields of a type, from its message's descriptor.

use clap::Args;
use mortise_text::Types as _;
use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};

use crate::{
    CliError, Connect, Exit, Style, Table, Ui, output::ui, resources::catalog::Catalog, resources::ids::type_name,
};

pub(super) const EXAMPLES: &str = "\
mortise explain artist
mortise explain demo.v2.Artist.genre";

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// TYPE, or TYPE.field.field
    #[arg(value_name = "TYPE[.FIELD]")]
    what: String,
    #[command(flatten)]
    connect: Connect,
}

impl Explain {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let show = self.connect.ui();
        let (_, catalog) = Catalog::connect(&self.connect).await?;
        let (ty, path) = split(&self.what, &catalog)?;
        let message = catalog.message(&ty);
        catalog.fault()?;
        let message = message
            .ok_or_else(|| CliError::failed(format!("{}: the server has no descriptor of its data", type_name(&ty))))?;
        let mut kind = Kind::Message(message);
        let mut title = type_name(&ty);
        let mut comment = None;
        for name in &path {
            let field = field(&kind, name, &title)?;
            title = format!("{title}.{}", field.name());
            comment = leading_comment(&field.parent_file(), field.path());
            kind = element(&field);
        }
        ui::print(page(&title, &kind, comment, &show))?;
        Ok(Exit::Done)
    }
}

/// Splits the argument into the longest beginning that is a type, and the fields after it.
fn split(what: &str, catalog: &Catalog) -> Result<(mortise_resource::pb::Type, Vec<String>), CliError> {
    let whole = catalog.find_type(what);
    let mut fields = Vec::new();
    let mut rest = what;
    while whole.is_err() {
        let Some((before, field)) = rest.rsplit_once('.') else { break };
        fields.insert(0, field.to_owned());
        if let Ok(ty) = catalog.find_type(before) {
            return Ok((ty, fields));
        }
        rest = before;
    }
    whole.map(|ty| (ty, Vec::new()))
}

fn field(kind: &Kind, name: &str, title: &str) -> Result<FieldDescriptor, CliError> {
    let Kind::Message(message) = kind else {
        return Err(CliError::usage(format!("{title} has no fields")));
    };
    message.get_field_by_name(name).or_else(|| message.get_field_by_json_name(name)).ok_or_else(|| {
        let known: Vec<_> = message.fields().map(|field| field.name().to_owned()).collect();
        CliError::usage(format!("{title} has no field {name:?}; it has {}", known.join(", ")))
    })
}

/// Kind of a field's values: for a map of its values, for a list of its items.
fn element(field: &FieldDescriptor) -> Kind {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
        kind => kind,
    }
}

fn page(title: &str, level: &Kind, comment: Option<String>, ui: &Ui) -> String {
    let mut out = format!("{} {}\n", ui.paint(Style::Bold, title), kind_name(level));
    let own = match level {
        Kind::Message(message) => leading_comment(&message.parent_file(), message.path()),
        Kind::Enum(kind) => leading_comment(&kind.parent_file(), kind.path()),
        _ => None,
    };
    for text in [comment, own].into_iter().flatten() {
        out.extend(text.lines().map(|line| format!("  {line}\n")));
    }
    match level {
        Kind::Message(message) => out.push_str(&fields(message, ui)),
        Kind::Enum(kind) => out.push_str(&values(kind, ui)),
        _ => {}
    }
    out
}

fn fields(message: &MessageDescriptor, ui: &Ui) -> String {
    if message.fields().len() == 0 {
        return "\nno fields\n".to_owned();
    }
    let mut table = Table::new(["field", "type", "about"]);
    for field in message.fields() {
        let mut about = leading_comment(&field.parent_file(), field.path()).unwrap_or_default().replace('\n', " ");
        if let Some(oneof) = field.containing_oneof().filter(|oneof| oneof.fields().len() > 1) {
            about = format!("[one of {}] {about}", oneof.name());
        }
        table.row(vec![field.name().into(), field_type(&field).into(), about.trim().into()]);
    }
    format!("\n{}", table.render(ui))
}

fn values(kind: &EnumDescriptor, ui: &Ui) -> String {
    let mut table = Table::new(["value", "number", "about"]);
    for value in kind.values() {
        let about = leading_comment(&kind.parent_file(), value.path()).unwrap_or_default().replace('\n', " ");
        table.row(vec![value.name().into(), value.number().to_string().into(), about.into()]);
    }
    format!("\n{}", table.render(ui))
}

fn field_type(field: &FieldDescriptor) -> String {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
            format!("map of {} to {}", kind_name(&key.kind()), kind_name(&value.kind()))
        }
        kind if field.cardinality() == Cardinality::Repeated => format!("list of {}", kind_name(&kind)),
        kind => kind_name(&kind),
    }
}

fn kind_name(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(kind) => kind.full_name().to_owned(),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// The comment above a declaration in its .proto file, if the descriptors kept it.
fn leading_comment(file: &FileDescriptor, path: &[i32]) -> Option<String> {
    let source = file.file_descriptor_proto().source_code_info.as_ref()?;
    let location = source.location.iter().find(|location| location.path == path)?;
    let lines = location.leading_comments.as_deref()?.trim_end().lines();
    Some(lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n"))
}
