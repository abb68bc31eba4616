//! Waits for a condition of resources, and for resources to be gone.
//!
//! A condition is waited for by a watch of each type and place; after the end of a watch, a new one waits for the
//! resources that are still pending. A resource to be deleted is read again and again, with pauses from 20 ms to 1 s.
//! Both waits end after `--timeout` with [`Exit::TimedOut`].

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    time::Duration,
};

use mortise_resource::{
    backoff::{Backoff, Waits},
    pb::{self, condition::State, watch_event::Event},
    types::Gvk,
};
use tokio::time::{Instant, timeout_at};

use crate::{
    CliError, Exit, Session,
    resources::ids::{Key, id_of, placed_title},
};

/// Most resources named after a timeout.
const MAX_NAMED: usize = 10;

/// Condition to wait for: `condition=Accepted`, `condition=Accepted=false`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    kind: String,
    state: State,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::True => "True",
            State::False => "False",
            State::Unknown => "Unknown",
        };
        write!(f, "{}={state}", self.kind)
    }
}

/// Fault in a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a condition; use condition=TYPE or condition=TYPE=true|false|unknown")]
pub(crate) struct ConditionError(String);

/// Parses `condition=TYPE` or `condition=TYPE=STATE`, for clap.
pub(crate) fn condition(text: &str) -> Result<Condition, ConditionError> {
    let wrong = || ConditionError(text.to_owned());
    let rest = text.strip_prefix("condition=").ok_or_else(wrong)?;
    let (kind, state) = rest.split_once('=').unwrap_or((rest, "true"));
    let state = match state.to_ascii_lowercase().as_str() {
        "true" => State::True,
        "false" => State::False,
        "unknown" => State::Unknown,
        _ => return Err(wrong()),
    };
    if kind.is_empty() {
        return Err(wrong());
    }
    Ok(Condition { kind: kind.to_owned(), state })
}

impl Condition {
    /// Whether a controller reports the condition for the current generation of the resource.
    fn holds(&self, resource: &pb::Resource) -> bool {
        let current = resource.status.values().filter(|status| status.observed_generation == resource.generation);
        current.flat_map(|status| &status.conditions).any(|c| c.r#type == self.kind && c.state() == self.state)
    }

    /// Describes the state that controllers report instead.
    fn instead(&self, resource: &pb::Resource) -> String {
        let found = resource.status.values().flat_map(|status| &status.conditions).find(|c| c.r#type == self.kind);
        match found {
            None => format!("no controller has reported {}", self.kind),
            Some(condition) => {
                let (_, state) = crate::resources::show::state(condition);
                let because = [condition.reason.as_str(), condition.message.as_str()];
                let because: Vec<_> = because.into_iter().filter(|text| !text.is_empty()).collect();
                let because = if because.is_empty() { String::new() } else { format!(" ({})", because.join(": ")) };
                format!("{}={state}{because}", self.kind)
            }
        }
    }
}

/// Type, partition and namespace of a watch.
type WatchKey = (Gvk, String, String);

/// Waits until the condition holds for all, at most for the session's timeout.
pub(crate) async fn until(session: &Session, all: &[pb::Resource], condition: &Condition) -> Result<(), CliError> {
    let mut places: BTreeMap<WatchKey, HashMap<Key, String>> = BTreeMap::new();
    for resource in all.iter().filter(|resource| !condition.holds(resource)) {
        let id = id_of(resource);
        let tenancy = id.tenancy.clone().unwrap_or_default();
        let place = (id.r#type.as_ref().map(Gvk::from), tenancy.partition, tenancy.namespace);
        if let (Some(ty), partition, namespace) = place {
            let text = format!("{}: {}", placed_title(&id), condition.instead(resource));
            places.entry((ty, partition, namespace)).or_default().insert(Key::of(&id), text);
        }
    }
    let deadline = Instant::now() + session.timeout();
    for (place, mut pending) in places {
        match timeout_at(deadline, watch(session, &place, condition, &mut pending)).await {
            Ok(ended) => ended?,
            Err(_) => return Err(in_vain(format!("{condition} within {:?}", session.timeout()), pending)),
        }
    }
    Ok(())
}

fn in_vain(what: String, pending: HashMap<Key, String>) -> CliError {
    let mut reasons: Vec<_> = pending.into_values().collect();
    reasons.sort();
    let more = reasons.len().saturating_sub(MAX_NAMED);
    reasons.truncate(MAX_NAMED);
    if more > 0 {
        reasons.push(format!("and {more} more"));
    }
    let error = CliError { details: reasons, ..CliError::new(Exit::TimedOut, format!("timed out waiting for {what}")) };
    error.remedy("--timeout DURATION waits longer")
}

async fn watch(
    session: &Session,
    (ty, partition, namespace): &WatchKey,
    condition: &Condition,
    pending: &mut HashMap<Key, String>,
) -> Result<(), CliError> {
    while !pending.is_empty() {
        let request = pb::WatchListRequest {
            r#type: Some(ty.to_pb()),
            tenancy: Some(pb::Tenancy { partition: partition.clone(), namespace: namespace.clone() }),
            name_prefix: String::new(),
            after: None,
        };
        let mut events = session.call(ty, async { session.resources().watch_list(request).await }).await?;
        while !pending.is_empty() {
            let event = match events.message().await {
                Ok(Some(event)) => event.event,
                // This client was too slow, or the server was restored; the current state comes again.
                Ok(None) => break,
                Err(status) if status.code() == tonic::Code::Aborted => break,
                Err(status) => return Err(CliError::rpc(ty, &status)),
            };
            let (resource, gone) = match event {
                Some(Event::Upsert(upsert)) => (upsert.resource.unwrap_or_default(), false),
                Some(Event::Delete(delete)) => (delete.resource.unwrap_or_default(), true),
                Some(Event::EndOfSnapshot(_)) | None => continue,
            };
            let id = id_of(&resource);
            let key = Key::of(&id);
            let Some(reason) = pending.get_mut(&key) else { continue };
            if gone {
                return Err(CliError::failed(format!("{} was deleted during the wait", placed_title(&id))));
            }
            if condition.holds(&resource) {
                pending.remove(&key);
            } else {
                *reason = format!("{}: {}", placed_title(&id), condition.instead(&resource));
            }
        }
    }
    Ok(())
}

/// First and longest pause between two reads of a resource that is to go.
const MIN_READ_PAUSE: Duration = Duration::from_millis(20);
const MAX_READ_PAUSE: Duration = Duration::from_secs(1);

/// Waits until this incarnation is gone, at most for the session's timeout.
pub(crate) async fn until_gone(session: &Session, id: &pb::Id) -> Result<(), CliError> {
    let deadline = Instant::now() + session.timeout();
    let mut waits = Waits::new(Backoff::new(MIN_READ_PAUSE, MAX_READ_PAUSE));
    while let Some(resource) = crate::resources::ids::read_if_there(session, id).await? {
        let pause = waits.next_wait();
        if Instant::now() + pause > deadline {
            let finalizers = mortise_resource::meta::finalizers(&resource.metadata);
            let holds = finalizers.into_iter().collect::<Vec<_>>().join(" ");
            let why =
                if holds.is_empty() { "it still exists".to_owned() } else { format!("finalizers hold it: {holds}") };
            let name = placed_title(id);
            let pending = HashMap::from([(Key::of(id), format!("{name}: {why}"))]);
            return Err(in_vain(format!("{name} to be gone within {:?}", session.timeout()), pending));
        }
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_waited_for() {
        let is = |kind: &str, state| Ok(Condition { kind: kind.into(), state });
        assert_eq!(condition("condition=Ready"), is("Ready", State::True));
        assert_eq!(condition("condition=Ready=False"), is("Ready", State::False));
        assert_eq!(condition("condition=Ready=unknown"), is("Ready", State::Unknown));
        for text in ["Ready", "condition=", "condition==true", "condition=Ready=maybe", "delete"] {
            assert!(condition(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_what_is_said_of_the_current_generation_counts() {
        let condition = condition("condition=Ready").unwrap();
        let ready = pb::Condition { r#type: "Ready".into(), state: State::True.into(), ..pb::Condition::default() };
        let status = |generation: &str| pb::Status {
            observed_generation: generation.into(),
            conditions: vec![ready.clone()],
            updated_at: None,
        };
        let mut resource = pb::Resource { generation: "b".into(), ..pb::Resource::default() };
        resource.status.insert("c".into(), status("a"));
        assert!(!condition.holds(&resource));
        resource.status.insert("d".into(), status("b"));
        assert!(condition.holds(&resource));
    }
}
