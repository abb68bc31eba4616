//! Follows resources and prints their changes: `mortise get --watch`, of a type or of names.
//!
//! Existing resources come first, in one table if the output is a table; then every change, as it happens. When the
//! server ends the watch because this client is too slow, a new watch starts with the state at that time.

use std::time::Duration;

use mortise_resource::{
    pb::{self, watch_event::Event},
    types::gvk,
};
use serde_json::json;

use super::sink::Sink;
use crate::{
    CliError, Session, Ui,
    output::ui,
    resources::ids,
    resources::output::Output,
    resources::show::{self, Rows, Shown},
};

/// Pause before an ended watch is opened again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// Kind of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    /// The resource existed when the watch began.
    Present,
    Written,
    Deleted,
    /// The resource was deleted, or no longer matches the query.
    Removed,
}

impl EventKind {
    fn word(self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Written => "written",
            Self::Deleted => "deleted",
            Self::Removed => "removed",
        }
    }
}

/// Prints each event as it comes. In a table, the existing resources are printed together, so that the columns fit.
pub(super) struct Printer<'c> {
    output: Output,
    rows: Rows<'c>,
    shown: Shown<'c>,
    ui: &'c Ui,
    headed: bool,
    /// Prints tokens from which the watch can continue.
    continues: bool,
}

impl<'c> Printer<'c> {
    pub(super) fn new(output: Output, rows: Rows<'c>, shown: Shown<'c>, ui: &'c Ui, continues: bool) -> Self {
        Self { output, rows, shown, ui, headed: false, continues }
    }
}

impl Sink for Printer<'_> {
    async fn begin(&mut self) -> Result<(), CliError> {
        Ok(())
    }

    async fn event(&mut self, kind: EventKind, resource: &pb::Resource) -> Result<(), CliError> {
        let word = kind.word();
        match &self.output {
            Output::Table | Output::Wide | Output::Columns(_) => {
                self.rows.add(resource, Some(word));
                self.shown.catalog.fault()?;
                if kind != EventKind::Present {
                    ui::print(self.rows.table.drain(self.ui))?;
                }
            }
            Output::Name => ui::line(format!("{} {word}", self.shown.name(resource)))?,
            Output::Template(template) => {
                let json = show::json(resource, self.shown.catalog);
                self.shown.catalog.fault()?;
                ui::line(template.print(&json, self.ui)?)?;
            }
            Output::Yaml => {
                let text = self.shown.yaml(resource)?;
                ui::print(format!("---\n# {word}\n{text}"))?;
            }
            Output::Json => {
                let json = self.shown.compact(resource)?;
                ui::line(format!("{{\"event\":\"{word}\",\"resource\":{json}}}"))?;
            }
        }
        Ok(())
    }

    /// Marks the end of the existing resources, and prints the token in the format for programs.
    async fn complete(&mut self, token: &str) -> Result<(), CliError> {
        match &self.output {
            output if output.is_table() && !self.headed => {
                let whole = self.rows.table.render(self.ui);
                self.rows.table.drain(self.ui);
                self.headed = true;
                ui::print(whole)
            }
            output if output.is_table() => ui::print(self.rows.table.drain(self.ui)),
            Output::Json if self.continues && !token.is_empty() => {
                ui::line(json!({ "event": "current", "resumeToken": token }).to_string())
            }
            _ => Ok(()),
        }
    }

    async fn fault(&mut self, text: &str) -> Result<(), CliError> {
        self.ui.warn(text);
        Ok(())
    }
}

/// The resources to watch, by their place and their names.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) units: pb::Tenancy,
    pub(super) prefix: String,
    /// Only these names; all of them if there are none.
    pub(super) names: Vec<String>,
}

/// Follows events until the server is gone, or the output is closed.
pub(super) async fn follow(
    session: &Session,
    ty: &pb::Type,
    listed: &Listed,
    sink: &mut impl Sink,
) -> Result<(), CliError> {
    let wants = |resource: &pb::Resource| listed.names.is_empty() || listed.names.contains(&ids::id_of(resource).name);
    loop {
        let request = pb::WatchListRequest {
            r#type: Some(ty.clone()),
            tenancy: Some(listed.units.clone()),
            name_prefix: listed.prefix.clone(),
            after: None,
        };
        let mut events = session.call(gvk(ty), async { session.resources().watch_list(request).await }).await?;
        sink.begin().await?;
        let mut upsert = EventKind::Present;
        loop {
            let event = match events.message().await {
                Ok(Some(event)) => event.event,
                Ok(None) => break,
                Err(status) if status.code() == tonic::Code::Aborted => {
                    sink.fault(&format!("the server ended the watch: {}; starting again", status.message())).await?;
                    break;
                }
                Err(status) => return Err(CliError::rpc(gvk(ty), &status)),
            };
            let (kind, resource) = match event {
                Some(Event::Upsert(event)) => (upsert, event.resource),
                Some(Event::Delete(event)) => (EventKind::Deleted, event.resource),
                Some(Event::EndOfSnapshot(_)) => {
                    upsert = EventKind::Written;
                    sink.complete("").await?;
                    continue;
                }
                None => continue,
            };
            if let Some(resource) = resource.filter(|resource| wants(resource)) {
                sink.event(kind, &resource).await?;
            }
        }
        tokio::time::sleep(REOPEN_PAUSE).await;
    }
}
