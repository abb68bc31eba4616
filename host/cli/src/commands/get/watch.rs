//! Follows resources and prints what happens to them: `mortise get --watch`, of a type or of names.
//!
//! What is there comes first, as a table if that is wanted; then every change, as it happens. When the server ends the
//! watch because this end was too slow, it begins anew with what is there then.

use std::time::Duration;

use mortise_resource::{
    pb::{self, watch_event::Event},
    types::gvk,
};
use serde_json::json;

use crate::{
    CliError, Session, Ui,
    output::ui,
    resources::ids::{id_of, title},
    resources::show::{Output, Rows, Shown},
};

/// How long a watch that was ended is left before the next one.
const PAUSE: Duration = Duration::from_secs(1);

/// What happened to a resource.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    /// It was there when the watch began.
    Present,
    Written,
    Deleted,
    /// It was deleted, or does not fit the query any more.
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

/// Prints events, each as it comes; in a table those of the beginning together, for the sake of the columns.
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
        match self.output {
            Output::Table | Output::Wide => {
                self.rows.add(resource, Some(word));
                self.shown.catalog.fault()?;
                if kind != EventKind::Present {
                    ui::print(self.rows.table.drain(self.ui))?;
                }
            }
            Output::Name => ui::line(format!("{} {word}", title(&id_of(resource))))?,
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

    /// The place that a watch can go on from, where texts are for programs.
    pub(super) fn position(&self, token: &str) -> Result<(), CliError> {
        match self.output {
            Output::Json => ui::line(json!({ "event": "current", "resumeToken": token }).to_string()),
            _ => Ok(()),
        }
    }

    /// The end of what was there when the watch began.
    pub(super) fn complete(&mut self) -> Result<(), CliError> {
        if matches!(self.output, Output::Table | Output::Wide) {
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

/// Until the server goes, or the output is closed.
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
        tokio::time::sleep(PAUSE).await;
    }
}
