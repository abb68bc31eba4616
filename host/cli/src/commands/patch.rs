//! `mortise patch`: changes fields of a resource by a merge patch (RFC 7396) or a JSON patch (RFC 6902).
//!
//! The patch is applied here to the printed form of the resource, and the result is written as an update of the version
//! that was read. After a change in between, all is done again, [`MAX_ATTEMPTS`] times. A patch that sets `version` is
//! tried once.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use mortise_resource::{data::UpdateRequest, pb};
use mortise_text::{Format, Source, Types as _};
use prost_reflect::{Kind, MessageDescriptor};
use serde_json::Value;

use crate::{
    CliError, Connect, Exit, Session, Tenancy,
    apply::files,
    output::ui,
    resources::{
        catalog::Catalog,
        ids::{self, Key, id_of, placed_title},
        show,
    },
};

pub(super) const EXAMPLES: &str = "\
mortise patch artist korn -p '{\"data\": {\"genre\": \"GENRE_METAL\"}}'
mortise patch artist korn --type json -p '[{\"op\": \"remove\", \"path\": \"/data/genre\"}]'
mortise patch artist korn --patch-file patch.json --dry-run";

/// Most attempts while others change the resource.
const MAX_ATTEMPTS: u32 = 10;

/// Arguments of `patch`.
#[derive(Debug, Args)]
pub struct Patch {
    /// TYPE NAME or TYPE/NAME
    #[arg(value_name = "TYPE NAME", required = true)]
    what: Vec<String>,
    /// The patch, as JSON
    #[arg(short, long, value_name = "JSON", required_unless_present = "patch_file", conflicts_with = "patch_file")]
    patch: Option<String>,
    /// A file with the patch; - is standard input
    #[arg(long, value_name = "FILE")]
    patch_file: Option<PathBuf>,
    /// Kind of the patch: merge replaces the given fields and removes those that are null, json is a list of operations
    #[arg(long = "type", value_name = "TYPE", default_value = "merge", hide_possible_values = true)]
    kind: PatchKind,
    /// Checks the change with the server, and stores nothing
    #[arg(long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "server",
          default_value = "none", hide_default_value = true, value_parser = crate::args::dry_run, action = ArgAction::Set)]
    dry_run: bool,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

/// Kind of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PatchKind {
    /// A JSON merge patch
    #[value(alias = "strategic")]
    Merge,
    /// A JSON patch
    Json,
}

/// A parsed patch.
enum Change {
    Merge(Value),
    Operations(json_patch::Patch),
}

impl Patch {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let change = self.change()?;
        let (session, catalog) = Catalog::connect(&self.connect).await?;
        let id = ids::one(&self.what, &catalog, &self.tenancy, &session)?;
        let title = placed_title(&id);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let stored = ids::read(&session, &id).await?;
            let wanted = patched(&stored, &change, &catalog)?;
            let is_own_version = wanted.version == stored.version;
            match self.update(&title, wanted, &session).await {
                Err(error) if error.code == Some(tonic::Code::Aborted) && is_own_version && attempts < MAX_ATTEMPTS => {
                }
                Err(error) => return Err(error),
                Ok(answer) => {
                    let is_same = answer.version == stored.version;
                    let word = match (is_same, self.dry_run) {
                        (true, false) => "unchanged",
                        (false, false) => "patched",
                        (_, true) => "patched (dry run)",
                    };
                    ui::line(format!("{title} {word}"))?;
                    return Ok(Exit::Done);
                }
            }
        }
    }

    /// Reads and parses the patch.
    fn change(&self) -> Result<Change, CliError> {
        let text = match (&self.patch, &self.patch_file) {
            (Some(text), _) => text.clone(),
            (None, Some(file)) => files::text(file)?,
            (None, None) => String::new(),
        };
        let wrong = |error: serde_json::Error| CliError::usage("the patch is not valid").caused_by(error);
        match self.kind {
            PatchKind::Merge => {
                match serde_json::from_str(&text).map_err(wrong)? {
                    patch @ Value::Object(_) => Ok(Change::Merge(patch)),
                    _ => Err(CliError::usage("a merge patch is a JSON object")
                        .remedy("--type json takes a list of operations")),
                }
            }
            PatchKind::Json => {
                let wrong = |error| wrong(error).remedy("--type json takes [{\"op\": …, \"path\": …, \"value\": …}]");
                Ok(Change::Operations(serde_json::from_str(&text).map_err(wrong)?))
            }
        }
    }

    async fn update(&self, title: &str, wanted: pb::Resource, session: &Session) -> Result<pb::Resource, CliError> {
        let request = UpdateRequest { resource: Some(wanted), validate_only: self.dry_run, ..UpdateRequest::default() };
        let answer = session.call(title, async { session.queries().update(request).await }).await?;
        ui::warn(title, &answer.warnings, &self.connect.ui());
        Ok(answer.resource.unwrap_or_default())
    }
}

/// Applies the patch to the printed form of a resource.
fn patched(stored: &pb::Resource, change: &Change, catalog: &Catalog) -> Result<pb::Resource, CliError> {
    let title = placed_title(&id_of(stored));
    let printed = pb::Resource { status: Default::default(), ..stored.clone() };
    let mut value: Value = serde_json::from_str(&show::json_text(&printed, catalog)?).unwrap_or_default();
    match change {
        Change::Merge(patch) => {
            let mut patch = patch.clone();
            let message = stored.id.as_ref().and_then(|id| id.r#type.as_ref()).and_then(|ty| catalog.message(ty));
            if let (Some(data), Some(message)) = (patch.get_mut("data"), message) {
                *data = spelled(data.take(), &message);
            }
            json_patch::merge(&mut value, &patch);
        }
        Change::Operations(operations) => json_patch::patch(&mut value, operations)
            .map_err(|error| CliError::failed(format!("{title}: the patch does not apply")).caused_by(error))?,
    }
    let text = value.to_string();
    let parsed = mortise_text::parse(Source { name: "patch", text: &text }, Some(Format::Json), catalog);
    catalog.fault()?;
    let wrong = || CliError::usage(format!("{title}: the patched resource has faults"));
    let mut documents = parsed.map_err(|faults| {
        let faults = faults.to_string();
        // The positions are those of the patched text, which the user has not seen.
        let details = faults.lines().map(|line| line.trim_start_matches(|c: char| c != ' ').trim().to_owned());
        CliError { details: details.collect(), ..wrong() }
    })?;
    let wanted = documents.pop().map(|document| document.resource).unwrap_or_default();
    if Key::of(&id_of(&wanted)) != Key::of(&id_of(stored)) {
        return Err(CliError::usage(format!("{title}: a patch cannot change the id"))
            .remedy("`mortise create` makes a resource of another name, `mortise move` one of another type"));
    }
    Ok(wanted)
}

/// Spells the fields of a message as its printed form does: `group_members` beside `groupMembers` would be a second
/// field. Keys of maps stay. JSON itself bounds the depth.
fn spelled(value: Value, message: &MessageDescriptor) -> Value {
    let Value::Object(fields) = value else { return value };
    if message.full_name().starts_with("google.protobuf.") {
        return Value::Object(fields);
    }
    let respelled = fields.into_iter().map(|(name, value)| {
        let Some(field) = message.get_field_by_name(&name) else { return (name, value) };
        let value = match (field.kind(), value) {
            (Kind::Message(entry), Value::Object(entries)) if field.is_map() => {
                let inner = entry.map_entry_value_field().kind();
                let values = entries.into_iter().map(|(key, value)| match &inner {
                    Kind::Message(inner) => (key, spelled(value, inner)),
                    _ => (key, value),
                });
                Value::Object(values.collect())
            }
            (Kind::Message(inner), Value::Array(items)) => {
                Value::Array(items.into_iter().map(|item| spelled(item, &inner)).collect())
            }
            (Kind::Message(inner), value) => spelled(value, &inner),
            (_, value) => value,
        };
        (field.json_name().to_owned(), value)
    });
    Value::Object(respelled.collect())
}
