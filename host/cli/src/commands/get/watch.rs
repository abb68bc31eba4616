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

use crate::{
    CliError, Session, Ui,
    output::ui,
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
}

impl<'c> Printer<'c> {
    pub(super) fn new(output: Output, rows: Rows<'c>, shown: Shown<'c>, ui: &'c Ui) -> Self {
        Self { output, rows, shown, ui, headed: false }
    }

    pub(super) fn ui(&self) -> &'c Ui {
        self.ui
    }

    pub(super) fn event(&mut self, kind: EventKind, resource: &pb::Resource) -> Result<(), CliError> {
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
                ui::line(template.print(&json))?;
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

    /// Prints the token from which a watch can continue, in the format for programs.
    pub(super) fn position(&self, token: &str) -> Result<(), CliError> {
        match self.output {
            Output::Json => ui::line(json!({ "event": "current", "resumeToken": token }).to_string()),
            _ => Ok(()),
        }
    }

    /// Marks the end of the existing resources.
    pub(super) fn complete(&mut self) -> Result<(), CliError> {
        if self.output.is_table() {
            if !self.headed {
                let whole = self.rows.table.render(self.ui);
                self.rows.table.drain(self.ui);
                self.headed = true;
                return ui::print(whole);
            }
            ui::print(self.rows.table.drain(self.ui))?;
        }
        Ok(())
    }
}

/// Prints events until the server is gone, or the output is closed.
pub(super) async fn follow(
    session: &Session,
    ty: &pb::Type,
    units: pb::Tenancy,
    prefix: &str,
    wants: &dyn Fn(&pb::Resource) -> bool,
    mut printer: Printer<'_>,
) -> Result<(), CliError> {
    loop {
        let request = pb::WatchListRequest {
            r#type: Some(ty.clone()),
            tenancy: Some(units.clone()),
            name_prefix: prefix.to_owned(),
            after: None,
        };
        let mut events = session.call(gvk(ty), async { session.resources().watch_list(request).await }).await?;
        let mut upsert = EventKind::Present;
        loop {
            let event = match events.message().await {
                Ok(Some(event)) => event.event,
                Ok(None) => break,
                Err(status) if status.code() == tonic::Code::Aborted => {
                    printer.ui.warn(&format!("the server ended the watch: {}; starting again", status.message()));
                    break;
                }
                Err(status) => return Err(CliError::rpc(gvk(ty), &status)),
            };
            let (kind, resource) = match event {
                Some(Event::Upsert(event)) => (upsert, event.resource),
                Some(Event::Delete(event)) => (EventKind::Deleted, event.resource),
                Some(Event::EndOfSnapshot(_)) => {
                    upsert = EventKind::Written;
                    printer.complete()?;
                    continue;
                }
                None => continue,
            };
            if let Some(resource) = resource.filter(|resource| wants(resource)) {
                printer.event(kind, &resource)?;
            }
        }
        tokio::time::sleep(REOPEN_PAUSE).await;
    }
}
