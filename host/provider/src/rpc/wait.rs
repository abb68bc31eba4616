//! Waits after a write: for conditions and for values of fields, until the resource has them or a deadline passes.
//!
//! Controllers may write the resource meanwhile, finalizers and metadata among others, so the conditions are those of
//! the stored generation. They count as long as the stored resource has the values that were applied; another client's
//! change of these ends the wait.

use std::time::Duration;

use mortise_resource::{
    FieldPath,
    backoff::{Backoff, Waits},
    pb,
};
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

use super::{
    changed_path::first_changed_path,
    diagnostic::error_at,
    session::{Server, Session},
};
use crate::{
    mapping::{Divergences, Shape, steps},
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::state,
    value::{PathText, Step, Value},
};

/// Default wait for conditions and fields, and for finalizers to go.
const DEFAULT_WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// First and longest wait between two reads of a resource.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The value of `wait.fields` that any value fulfils.
const ANY_VALUE: &str = "*";

/// The kind of change that a wait follows.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Create,
    Update,
    Delete,
}

/// The longest wait: of `timeouts`, else of `wait`, else the default.
pub(super) fn limit(state: &Value, change: Change) -> Duration {
    let name = match change {
        Change::Create => "create",
        Change::Update => "update",
        Change::Delete => "delete",
    };
    let known = [state.get("timeouts").get(name), state.get("wait").get("timeout")];
    let known = known.into_iter().filter_map(Value::as_str).find_map(|text| wait_timeout(text).ok());
    known.unwrap_or(DEFAULT_WAIT_TIMEOUT)
}

/// Waits between reads, longer each time, until a deadline.
pub(super) struct PollDelays {
    until: Instant,
    waits: Waits,
}

impl PollDelays {
    pub(super) fn for_at_most(timeout: Duration) -> Self {
        Self { until: Instant::now() + timeout, waits: Waits::new(Backoff::new(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)) }
    }

    /// Waits until the next read; false once the deadline or the end of the run is near.
    pub(super) async fn next(&mut self, session: &Session) -> bool {
        let wait = self.waits.next_wait();
        if session.is_stopped() || Instant::now() + wait > self.until {
            return false;
        }
        sleep(wait).await;
        true
    }
}

/// Longest `wait.timeout`: a day.
const MAX_WAIT_TIMEOUT: Duration = Duration::from_secs(86_400);

/// A text that is not a `wait.timeout`.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a duration of at most a day, such as 90s or 5m")]
pub(crate) struct WaitTimeoutError(String);

/// Reads a `wait.timeout`: `90s`, `5m` or `1h30m`, of at most a day.
pub(crate) fn wait_timeout(text: &str) -> Result<Duration, WaitTimeoutError> {
    let parsed = text.parse::<jiff::SignedDuration>().ok().and_then(|parsed| Duration::try_from(parsed).ok());
    parsed.filter(|wait| *wait <= MAX_WAIT_TIMEOUT).ok_or_else(|| WaitTimeoutError(text.to_owned()))
}

/// The path of a field in `wait.fields`; `None` if it leads to no single value of the data.
pub(super) fn field_path(schema: &ResourceSchema, text: &str) -> Option<Vec<Step>> {
    let path = steps(&text.parse::<FieldPath>().ok()?);
    let [Step::Attribute(data), rest @ ..] = path.as_slice() else { return None };
    let is_value = data == "data" && matches!(schema.shape().at(rest), Some(Shape::Leaf(_)));
    is_value.then_some(path)
}

/// A wait after a write.
pub(super) struct Wait<'a> {
    pub(super) schema: &'a ResourceSchema,
    pub(super) session: &'a Session,
    pub(super) server: &'a Server,
    pub(super) planned: &'a Value,
    pub(super) config: &'a Value,
    pub(super) divergences: &'a Divergences,
    pub(super) change: Change,
}

impl Wait<'_> {
    /// Waits for the conditions and fields that the configuration names. Returns the resource ([`Wait::fitting`]), and
    /// the fault of a wait that failed.
    pub(super) async fn for_resource(&self, written: pb::Resource) -> (pb::Resource, Option<Diagnostic>) {
        if self.missing(&written).is_empty() {
            return (written, None);
        }
        let mut found = written.clone();
        let mut delays = PollDelays::for_at_most(limit(self.planned, self.change));
        let mut unread: Option<Status> = None;
        loop {
            if let Some(path) = self.changed_by_others(&found) {
                let summary =
                    format!("the resource was written, but another client changed {} during the wait", PathText(&path));
                return (written, Some(error_at(&path, summary)));
            }
            let missing = self.missing(&found);
            if missing.is_empty() {
                return (self.fitting(found, &written), None);
            }
            let path = [Step::Attribute("wait".to_owned())];
            if !delays.next(self.session).await {
                let why = if self.session.is_stopped() { "the run was stopped" } else { "the timeout passed" };
                let summary = format!("the resource was written, but {why} before {}", missing.join(", and "));
                let unread = unread.map(|status| format!("The last read failed: {}\n", status.message()));
                let detail = unread.unwrap_or_default() + &conditions_text(&found);
                return (written, Some(Diagnostic { detail, ..error_at(&path, summary) }));
            }
            match self.server.client.read(found.id.clone().unwrap_or_default()).await {
                Ok(Some(now)) => (found, unread) = (now, None),
                Ok(None) => {
                    let summary = "the resource was written, but another client deleted it during the wait";
                    return (written, Some(error_at(&path, summary)));
                }
                // The server restarts, or is busy.
                Err(status) if is_passing(&status) => unread = Some(status),
                Err(status) => {
                    let summary = format!("the resource was written, but cannot be read: {}", status.message());
                    return (written, Some(error_at(&path, summary)));
                }
            }
        }
    }

    /// The conditions that do not hold, and the fields without their values.
    fn missing(&self, found: &pb::Resource) -> Vec<String> {
        let wait = self.planned.get("wait");
        let mut missing = Vec::new();
        if let Value::List(wanted) = wait.get("conditions") {
            let wanted = wanted.iter().filter_map(Value::as_str);
            let absent: Vec<_> = wanted.filter(|condition| !condition_holds(found, condition)).collect();
            if !absent.is_empty() {
                missing.push(format!("these conditions were true: {}", absent.join(", ")));
            }
        }
        if let Value::Map(wanted) = wait.get("fields") {
            let state = self.state_of(found);
            let wanted = wanted.iter().filter_map(|(path, value)| Some((path.as_str(), value.as_str()?)));
            let absent: Vec<_> = wanted
                .filter(|(path, value)| !self.has_value(&state, path, value))
                // The values may be secrets.
                .map(|(path, _)| path)
                .collect();
            if !absent.is_empty() {
                missing.push(format!("these fields had their values: {}", absent.join(", ")));
            }
        }
        missing
    }

    fn has_value(&self, state: &Value, path: &str, wanted: &str) -> bool {
        let Some(path) = field_path(self.schema, path) else { return false };
        let found = path.iter().fold(state, |value, step| match (step, value) {
            (Step::Attribute(name) | Step::Key(name), value) => value.get(name),
            (Step::Index(index), Value::List(items)) => items.get(*index).unwrap_or(&Value::Null),
            (Step::Index(_), _) => &Value::Null,
        });
        match found {
            Value::Null => false,
            _ if wanted == ANY_VALUE => true,
            Value::String(text) => text == wanted,
            Value::Bool(value) => value.to_string() == wanted,
            Value::Number(number) => wanted.parse().is_ok_and(|wanted: crate::value::Number| wanted == *number),
            _ => false,
        }
    }

    fn state_of(&self, found: &pb::Resource) -> Value {
        state(self.schema, found, self.planned, self.divergences, &self.server.defaults.controller_keys).0
    }

    /// The path of the first configured value that the stored resource no longer has.
    fn changed_by_others(&self, found: &pb::Resource) -> Option<Vec<Step>> {
        let now = self.state_of(found);
        ["data", "metadata"].into_iter().find_map(|name| {
            let changed = changed_value(self.config.get(name), self.planned.get(name), now.get(name));
            changed.map(|path| [vec![Step::Attribute(name.to_owned())], path].concat())
        })
    }

    /// The resource as found, if it fits the plan; else as written, with the statuses as found. Its generation is that
    /// of its data then: the next read shows what controllers wrote, and no update overwrites it unseen.
    fn fitting(&self, found: pb::Resource, written: &pb::Resource) -> pb::Resource {
        let now = self.state_of(&found);
        let fits = |name: &str| first_changed_path(self.planned.get(name), now.get(name)).is_none();
        match fits("data") && fits("metadata") {
            true => found,
            false => pb::Resource { status: found.status, ..written.clone() },
        }
    }
}

/// Tells whether another attempt to read may succeed. tonic says Cancelled of a call whose connection was closed before the call was sent.
fn is_passing(status: &Status) -> bool {
    use Code::{Aborted, Cancelled, DeadlineExceeded, ResourceExhausted, Unavailable};
    matches!(status.code(), Unavailable | DeadlineExceeded | ResourceExhausted | Aborted | Cancelled)
}

/// The path of the first configured value that is not as planned.
fn changed_value(config: &Value, planned: &Value, now: &Value) -> Option<Vec<Step>> {
    match (config, planned, now) {
        (Value::Null, ..) | (_, Value::Unknown(_), _) => None,
        (Value::Map(config), Value::Map(_), Value::Map(_)) => config.iter().find_map(|(name, config)| {
            let path = changed_value(config, planned.get(name), now.get(name))?;
            Some([vec![Step::Attribute(name.clone())], path].concat())
        }),
        (Value::List(config), Value::List(planned), Value::List(now))
            if config.len() == planned.len() && planned.len() == now.len() =>
        {
            let mut items = config.iter().zip(planned.iter().zip(now)).enumerate();
            items.find_map(|(index, (config, (planned, now)))| {
                changed_value(config, planned, now).map(|path| [vec![Step::Index(index)], path].concat())
            })
        }
        (_, planned, now) => (planned != now).then(Vec::new),
    }
}

/// Whether a controller reports a condition as true for the stored generation.
fn condition_holds(resource: &pb::Resource, condition: &str) -> bool {
    let current = resource.status.values().filter(|status| status.observed_generation == resource.generation);
    let mut conditions = current.flat_map(|status| &status.conditions);
    conditions.any(|found| found.r#type == condition && found.state() == pb::condition::State::True)
}

/// The controllers' conditions, for people.
fn conditions_text(resource: &pb::Resource) -> String {
    let lines = resource.status.iter().flat_map(|(name, status)| {
        let line = move |condition: &pb::Condition| {
            format!(
                "{name}: {} {} {} {}\n",
                condition.r#type,
                condition.state().as_str_name(),
                condition.reason,
                condition.message
            )
        };
        status.conditions.iter().map(line)
    });
    let lines: String = lines.collect();
    if lines.is_empty() { "No controller has reported a status.".to_owned() } else { lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A controller that was done with the resource before the change has yet to see it.
    #[test]
    fn a_condition_of_another_generation_does_not_hold() {
        let reported = |generation: &str, state: pb::condition::State| {
            let condition =
                pb::Condition { r#type: "Ready".to_owned(), state: state.into(), ..pb::Condition::default() };
            let observed_generation = generation.to_owned();
            let status = pb::Status { observed_generation, conditions: vec![condition], updated_at: None };
            let status = [("tests".to_owned(), status)].into();
            pb::Resource { generation: "2".to_owned(), status, ..pb::Resource::default() }
        };
        use pb::condition::State::{False, True};
        assert!(condition_holds(&reported("2", True), "Ready"));
        assert!(!condition_holds(&reported("1", True), "Ready"));
        assert!(!condition_holds(&reported("2", False), "Ready"));
        assert!(!condition_holds(&reported("2", True), "Other"));
    }
}
