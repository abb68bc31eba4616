//! The difference between two states of a resource, as events.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mortise_resource::{meta, pb};
use serde_json::Value;

use super::event::{Event, EventKind, Moment, timestamp};
use crate::{
    CliError,
    resources::catalog::Catalog,
    resources::ids::id_of,
    resources::{readiness::state, show},
};

/// Most changed fields that an event names.
const MAX_FIELDS: usize = 6;

/// Deepest fields that an event names.
const MAX_DEPTH: usize = 4;

/// Returns the time of a resource's last write.
pub(super) fn written_at(resource: &pb::Resource) -> Option<Timestamp> {
    resource.meta.as_ref().and_then(|meta| meta.update_time).and_then(timestamp)
}

/// Returns the events of a write. `before` is the state before it, if it is known.
pub(super) fn events(
    before: Option<&pb::Resource>,
    now: &pb::Resource,
    catalog: &Catalog,
) -> Result<Vec<Event>, CliError> {
    let id = id_of(now);
    let moment = written_at(now).map_or(Moment::Unknown, Moment::At);
    let event = |kind, text: String| Event { moment, kind, id: id.clone(), text };
    // Another resource of the same name.
    let before = before.filter(|before| id_of(before).uid == id.uid);
    let Some(before) = before else {
        let meta = now.meta.clone().unwrap_or_default();
        let mut events = vec![match meta.create_time.is_some() && meta.create_time == meta.update_time {
            true => event(EventKind::Created, format!("version {}", now.version)),
            false => event(
                EventKind::Written,
                format!("version {}; the state before it is not at hand, so its changes are unknown", now.version),
            ),
        }];
        events.extend(going(None, now).map(|text| event(EventKind::Deleting, text)));
        return Ok(events);
    };
    let mut events = Vec::new();
    let fields = fields(before, now, catalog)?;
    if !fields.is_empty() {
        events.push(event(EventKind::Written, format!("version {}: {}", now.version, listed(&fields))));
    }
    events.extend(going(Some(before), now).map(|text| event(EventKind::Deleting, text)));
    events.extend(conditions(before, now).into_iter().map(|text| event(EventKind::Condition, text)));
    if events.is_empty() {
        let reporters = reporters(before, now);
        events.push(match reporters.is_empty() {
            true => event(EventKind::Written, format!("version {}, without a visible change", now.version)),
            false => event(EventKind::Status, format!("{}: no condition changed", reporters.join(", "))),
        });
    }
    Ok(events)
}

/// Describes the beginning of a deletion.
fn going(before: Option<&pb::Resource>, now: &pb::Resource) -> Option<String> {
    let is_marked = |resource: &pb::Resource| resource.metadata.contains_key(meta::DELETION_TIMESTAMP);
    if !is_marked(now) || before.is_some_and(is_marked) {
        return None;
    }
    let finalizers: Vec<_> = meta::finalizers(&now.metadata).into_iter().collect();
    Some(match finalizers.is_empty() {
        true => "marked for deletion".to_owned(),
        false => format!("marked for deletion; waits for the finalizers {}", finalizers.join(" ")),
    })
}

/// Describes each condition of `now` that `before` did not have so.
fn conditions(before: &pb::Resource, now: &pb::Resource) -> Vec<String> {
    let mut changed = Vec::new();
    for (key, status) in &now.status {
        let earlier = before.status.get(key).map(|status| status.conditions.as_slice()).unwrap_or_default();
        for condition in &status.conditions {
            let was = earlier.iter().find(|was| was.r#type == condition.r#type);
            let is_same = was.is_some_and(|was| {
                was.state == condition.state && was.reason == condition.reason && was.message == condition.message
            });
            if !is_same {
                changed.push(describe(key, condition));
            }
        }
    }
    changed
}

/// Describes a condition: `Accepted=False by demo: NoArtist: it has no artist`.
pub(super) fn describe(key: &str, condition: &pb::Condition) -> String {
    let (_, state) = state(condition);
    let mut text = format!("{}={state} by {key}", condition.r#type);
    for more in [&condition.reason, &condition.message] {
        if !more.is_empty() {
            text.push_str(": ");
            text.push_str(more);
        }
    }
    text
}

/// The keys of statuses that differ.
fn reporters(before: &pb::Resource, now: &pb::Resource) -> Vec<String> {
    let differs = |(key, status): &(&String, &pb::Status)| before.status.get(*key) != Some(*status);
    let mut keys: Vec<_> = now.status.iter().filter(differs).map(|(key, _)| key.clone()).collect();
    keys.sort();
    keys
}

/// Paths of the fields that differ, without those of statuses, and without those that the server makes at each write.
fn fields(before: &pb::Resource, now: &pb::Resource, catalog: &Catalog) -> Result<Vec<String>, CliError> {
    let printed = |resource: &pb::Resource| -> Result<Value, CliError> {
        let bare = pb::Resource {
            status: Default::default(),
            version: String::new(),
            generation: String::new(),
            ..resource.clone()
        };
        let text = show::json_text(&bare, catalog)?;
        Ok(serde_json::from_str(&text).unwrap_or_default())
    };
    let mut found = Vec::new();
    differences("", &printed(before)?, &printed(now)?, 0, &mut found);
    // A mark of deletion has an event of its own.
    found.retain(|path| path != &format!("metadata.{}", meta::DELETION_TIMESTAMP));
    Ok(found)
}

/// Collects the paths at which two values differ.
pub(super) fn differences(path: &str, before: &Value, now: &Value, depth: usize, found: &mut Vec<String>) {
    if before == now {
        return;
    }
    let nothing = serde_json::Map::new();
    let both = match (before, now) {
        (Value::Object(before), Value::Object(now)) => Some((before, now)),
        (Value::Null, Value::Object(now)) => Some((&nothing, now)),
        (Value::Object(before), Value::Null) => Some((before, &nothing)),
        _ => None,
    };
    let Some((before, now)) = both.filter(|_| depth < MAX_DEPTH) else {
        found.push(path.to_owned());
        return;
    };
    let mut keys: BTreeMap<&String, (&Value, &Value)> = BTreeMap::new();
    for (key, value) in before {
        keys.insert(key, (value, &Value::Null));
    }
    for (key, value) in now {
        keys.entry(key).and_modify(|(_, now)| *now = value).or_insert((&Value::Null, value));
    }
    for (key, (before, now)) in keys {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        differences(&path, before, now, depth + 1, found);
    }
}

/// Lists paths, at most [`MAX_FIELDS`] of them.
fn listed(fields: &[String]) -> String {
    let shown: Vec<&str> = fields.iter().take(MAX_FIELDS).map(String::as_str).collect();
    match fields.len().saturating_sub(MAX_FIELDS) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
