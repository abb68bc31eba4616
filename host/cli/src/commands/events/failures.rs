//! The last failures of controllers: one for each resource and controller, with the number of its repetitions.

use std::collections::HashMap;

use jiff::Timestamp;
use mortise_resource::data::{ControllerReport, ListControllersRequest, ReconcileError};

use super::event::{Event, EventKind, Moment, Wanted, moment_text, timestamp};
use crate::{CliError, Session, resources::ids::Key};

/// The failures that were shown, with the time of each.
#[derive(Default)]
pub(super) struct Failures {
    shown: HashMap<(String, Key, EventWord), prost_types::Timestamp>,
    fault: Option<String>,
}

/// The word of an event's kind.
type EventWord = &'static str;

impl Failures {
    /// The reason for the lack of failures.
    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Returns the failures that were not shown before. A caller without the right to see controllers gets none.
    pub(super) async fn new_ones(
        &mut self,
        session: &Session,
        wanted: &[Wanted],
        since: Option<Timestamp>,
    ) -> Result<Vec<Event>, CliError> {
        if self.fault.is_some() {
            return Ok(Vec::new());
        }
        let request = ListControllersRequest::default();
        let reports = match session.call("controllers", session.controllers().list(request)).await {
            Ok(answer) => answer.controllers,
            Err(error) if matches!(error.code, Some(tonic::Code::PermissionDenied | tonic::Code::Unimplemented)) => {
                self.fault = Some(error.message);
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let mut events = self.of(&reports, wanted);
        events.retain(|event| since.is_none_or(|since| event.moment() >= since));
        Ok(events)
    }

    /// Returns the new failures of reports.
    pub(super) fn of(&mut self, reports: &[ControllerReport], wanted: &[Wanted]) -> Vec<Event> {
        let mut events = Vec::new();
        for report in reports {
            let failed = report.last_errors.iter().map(|error| (EventKind::Failed, error));
            let deferred = report.put_off.iter().map(|error| (EventKind::Deferred, error));
            for (kind, error) in failed.chain(deferred) {
                let Some(id) = error.id.as_ref().filter(|id| wanted.iter().any(|wanted| wanted.has(id))) else {
                    continue;
                };
                let last = error.last.unwrap_or_default();
                let place = (report.name.clone(), Key::of(id), kind.word());
                if self.shown.insert(place, last) == Some(last) {
                    continue;
                }
                let moment = error.last.and_then(timestamp).map_or(Moment::Unknown, Moment::At);
                events.push(Event { moment, kind, id: id.clone(), text: describe(&report.name, error) });
            }
        }
        events
    }
}

fn describe(controller: &str, error: &ReconcileError) -> String {
    let first = error.first.and_then(timestamp).map(moment_text).unwrap_or_default();
    match error.count {
        0 | 1 => format!("{controller}: {}", error.message),
        count => format!("{controller}: {} ({count} times since {first})", error.message),
    }
}
