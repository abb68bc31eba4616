//! `mortise describe`: resources, each with its owners, what it owns, and failures of its controllers.

use std::time::SystemTime;

use clap::Args;
use mortise_resource::{
    data::{ListControllersRequest, ReconcileError},
    goten::LabelSelector,
    meta, pb,
};

use super::{status, tree};
use crate::{
    CliError, Connect, Exit, Session, Style, Table, Tenancy, Ui,
    apply::{
        files::{self, Files},
        plan,
    },
    output::ui,
    resources::catalog::Catalog,
    resources::ids::{self, Key, Selection, id_of, made_at, placed_title, type_name},
    resources::search::QueryArgs,
    resources::show::{self, ago},
};

pub(super) const EXAMPLES: &str = "\
mortise describe artist korn
mortise describe artist/korn album/issues
mortise describe artists -l app=shop
mortise describe -f shop/";

/// Most owned resources listed; `mortise tree` shows all.
const MAX_OWNED: usize = 20;

/// Arguments of `describe`.
#[derive(Debug, Args)]
pub struct Describe {
    /// TYPE, TYPE NAME…, or TYPE/NAME…
    #[arg(value_name = "TYPE [NAME]", required_unless_present = "filename", conflicts_with = "filename")]
    what: Vec<String>,
    /// Describes the stored resources that these files, directories and URLs name; - is standard input
    #[arg(short, long, value_name = "FILE|DIR|URL|-", num_args = 1..)]
    filename: Vec<std::path::PathBuf>,
    /// Also reads the directories within a directory
    #[arg(short = 'R', long, requires = "filename")]
    recursive: bool,
    /// Describes the resources of the type with these labels, such as app=shop,env!=prod
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = crate::resources::selector::selector)]
    selector: Option<LabelSelector>,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Describe {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let (resources, missing) = self.resources(&session, &catalog).await?;
        let events = if resources.is_empty() { Vec::new() } else { events(&session).await? };
        for (position, resource) in resources.iter().enumerate() {
            let owners = tree::owners(&session, resource).await?;
            let owned = tree::owned(&session, &id_of(resource)).await?;
            let events = events.iter().filter(|event| event.is_about(&id_of(resource))).collect();
            let page = Page { resource, owners, owned, events }.render(&catalog, &ui)?;
            ui::print(if position == 0 { page } else { format!("\n{page}") })?;
        }
        for error in &missing {
            ui.note(&format!("mortise: {error}"));
        }
        Ok(if missing.is_empty() { Exit::Done } else { Exit::Failed })
    }

    /// Reads the chosen resources, and the errors of those that do not exist.
    async fn resources(
        &self,
        session: &Session,
        catalog: &Catalog,
    ) -> Result<(Vec<pb::Resource>, Vec<CliError>), CliError> {
        let wanted = match self.filename.is_empty() {
            true => ids::selections(&self.what, catalog, &self.tenancy)?,
            false => {
                let files = Files { filename: self.filename.clone(), recursive: self.recursive, format: None };
                files::selections(&files, catalog, &self.tenancy, session).await?
            }
        };
        if self.selector.is_some() && wanted.iter().any(|wanted| !wanted.names.is_empty()) {
            return Err(CliError::usage("give either names or --selector"));
        }
        let (mut resources, mut missing) = (Vec::new(), Vec::new());
        for Selection { ty, names } in &wanted {
            for name in names {
                match ids::read(session, &ids::id(ty, name, &self.tenancy, session, catalog)).await {
                    Ok(resource) => resources.push(resource),
                    Err(error) if error.code == Some(tonic::Code::NotFound) => missing.push(error),
                    Err(error) => return Err(error),
                }
            }
            if names.is_empty() {
                let units = self.tenancy.units_for(ty, session, catalog);
                let query = QueryArgs::by(self.selector.clone(), "");
                resources.extend(query.search(session, ty, units, "", &self.connect.ui()).await?.resources);
            }
        }
        if resources.is_empty() && missing.is_empty() {
            let types: Vec<_> = wanted.iter().map(|wanted| type_name(&wanted.ty)).collect();
            self.connect.ui().note(&format!("no {} found", types.join(" and no ")));
        }
        Ok((resources, missing))
    }
}

/// Failure of a controller at a resource.
struct Event {
    controller: String,
    error: ReconcileError,
}

impl Event {
    fn is_about(&self, id: &pb::Id) -> bool {
        let other = self.error.id.as_ref();
        other.is_some_and(|other| Key::of(other) == Key::of(id) && (other.uid.is_empty() || other.uid == id.uid))
    }
}

/// Last failures of all controllers.
async fn events(session: &Session) -> Result<Vec<Event>, CliError> {
    let request = ListControllersRequest::default();
    let call = async { session.controllers().list(request).await };
    let answer = match session.call("controllers", call).await {
        Ok(answer) => answer,
        // Another server of this API, not a Mortise.
        Err(error) if error.code == Some(tonic::Code::Unimplemented) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let events = answer.controllers.into_iter().flat_map(|report| {
        let name = report.name;
        report.last_errors.into_iter().map(move |error| Event { controller: name.clone(), error })
    });
    Ok(events.collect())
}

struct Page<'r> {
    resource: &'r pb::Resource,
    owners: Vec<tree::Node>,
    owned: Vec<pb::Resource>,
    events: Vec<&'r Event>,
}

impl Page<'_> {
    fn render(&self, catalog: &Catalog, ui: &Ui) -> Result<String, CliError> {
        let resource = self.resource;
        let id = id_of(resource);
        let tenancy = id.tenancy.clone().unwrap_or_default();
        let mut out = String::new();
        let mut put = |name: &str, value: &str| {
            if !value.is_empty() {
                let head = ui.paint(Style::Bold, &format!("{name}:"));
                out.push_str(&format!("{head}{}{value}\n", " ".repeat(14usize.saturating_sub(name.len() + 1).max(1))));
            }
        };
        put("Name", &id.name);
        put("Type", &id.r#type.as_ref().map(type_name).unwrap_or_default());
        put("Partition", &tenancy.partition);
        put("Namespace", &tenancy.namespace);
        put("Uid", &id.uid);
        put("Version", &resource.version);
        put("Generation", &resource.generation);
        let created = made_at(&id.uid).map(moment).unwrap_or_default();
        put("Created", &created);
        let written = made_at(&resource.generation).map(moment).unwrap_or_default();
        put("Written", &written);
        if let Some(since) = resource.metadata.get(meta::DELETION_TIMESTAMP) {
            let holds: Vec<_> = meta::finalizers(&resource.metadata).into_iter().collect();
            put("Going", &format!("since {since}; finalizers: {}", holds.join(" ")));
        }
        for (position, owner) in self.owners.iter().enumerate() {
            put(if position == 0 { "Owner" } else { "  owned by" }, &owner.title());
        }
        let mut section = |name: &str, body: &str| {
            if !body.is_empty() {
                out.push_str(&format!("\n{}\n", ui.paint(Style::Bold, &format!("{name}:"))));
                out.extend(
                    body.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") }),
                );
            }
        };
        // YAML of one part of the resource.
        let part = |part: pb::Resource| -> Result<String, CliError> {
            let text = show::yaml(&part, catalog)?;
            let (_, body) = text.split_once('\n').unwrap_or_default();
            let lines = body.lines().map(|line| line.strip_prefix("  ").unwrap_or(line));
            Ok(lines.collect::<Vec<_>>().join("\n"))
        };
        let bare = plan::bare(resource);
        section("Metadata", &part(pb::Resource { metadata: bare.metadata, ..pb::Resource::default() })?);
        if resource.data.is_some() {
            section("Data", &data(resource, catalog)?);
        }
        if !resource.status.is_empty() {
            section("Conditions", &status::table(resource, ui));
        }
        let mut owned: Vec<_> = self.owned.iter().take(MAX_OWNED).map(|r| placed_title(&id_of(r))).collect();
        if self.owned.len() > MAX_OWNED {
            owned.push(format!("and {} more", self.owned.len() - MAX_OWNED));
        }
        section(&format!("Owns ({})", self.owned.len()), &owned.join("\n"));
        if !self.events.is_empty() {
            let mut table = Table::new(["controller", "count", "first", "last", "error"]);
            for Event { controller, error } in &self.events {
                table.row(vec![
                    controller.as_str().into(),
                    error.count.to_string().into(),
                    error.first.map(since).unwrap_or_default().into(),
                    error.last.map(since).unwrap_or_default().into(),
                    error.message.as_str().into(),
                ]);
            }
            section("Events", &table.render(ui));
        }
        Ok(out)
    }
}

/// The data as YAML.
fn data(resource: &pb::Resource, catalog: &Catalog) -> Result<String, CliError> {
    // Data is decoded by the type in the id, so the id stays and is cut off again.
    let ty = resource.id.as_ref().and_then(|id| id.r#type.clone());
    let id = pb::Id { r#type: ty, ..pb::Id::default() };
    let text =
        show::yaml(&pb::Resource { id: Some(id), data: resource.data.clone(), ..pb::Resource::default() }, catalog)?;
    let lines = text.lines().skip_while(|line| !line.starts_with("data:"));
    let mut body = Vec::new();
    for line in lines {
        match line.strip_prefix("data:") {
            Some("") => {}
            Some(value) => body.push(value.trim_start().to_owned()),
            None => body.push(line.strip_prefix("  ").unwrap_or(line).to_owned()),
        }
    }
    Ok(body.join("\n"))
}

fn moment(ms: u64) -> String {
    let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(ms);
    let written = i64::try_from(ms / 1000).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    let written = written.map(|t| t.to_string()).unwrap_or_default();
    format!("{written} ({} ago)", ago(time))
}

fn since(time: prost_types::Timestamp) -> String {
    SystemTime::try_from(time).map(|start| format!("{} ago", ago(start))).unwrap_or_default()
}
