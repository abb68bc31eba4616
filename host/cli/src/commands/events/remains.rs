//! Events that are older than the history, as far as a resource still shows them: its creation, the last change of its
//! content, and the last report of each controller.

use jiff::Timestamp;
use mortise_resource::pb;

use super::{
    compare::describe,
    event::{Event, EventKind, Moment, Wanted, of_ulid, timestamp},
};
use crate::{CliError, Session, resources::ids};

/// Returns these events of the resources that are wanted by name, behind `since` and before `history`.
pub(super) async fn of_named(
    session: &Session,
    wanted: &[Wanted],
    since: Option<Timestamp>,
    history: Option<Timestamp>,
) -> Result<Vec<Event>, CliError> {
    let mut events = Vec::new();
    for Wanted { ty, units, name } in wanted {
        let Some(name) = name else { continue };
        let id =
            pb::Id { name: name.clone(), r#type: Some(ty.clone()), tenancy: Some(units.clone()), uid: String::new() };
        let resource = ids::read_if_there(session, &id).await?;
        events.extend(resource.iter().flat_map(of));
    }
    let is_wanted = |event: &Event| {
        since.is_none_or(|since| event.moment() >= since) && history.is_none_or(|history| event.moment() < history)
    };
    events.retain(is_wanted);
    Ok(events)
}

/// Returns the traces of a resource's past.
pub(super) fn of(resource: &pb::Resource) -> Vec<Event> {
    let id = ids::id_of(resource);
    let event = |time, kind, text: String| Event { moment: Moment::At(time), kind, id: id.clone(), text };
    let mut events = Vec::new();
    let created = of_ulid(&id.uid);
    let written = of_ulid(&resource.generation).filter(|written| Some(*written) != created);
    events.extend(created.map(|time| event(time, EventKind::Created, "seen in its uid".to_owned())));
    events.extend(written.map(|time| {
        event(time, EventKind::Written, "the last change of its content, seen in its generation".to_owned())
    }));
    let mut statuses: Vec<_> = resource.status.iter().collect();
    statuses.sort_by_key(|(key, _)| *key);
    for (key, status) in statuses {
        let Some(time) = status.updated_at.and_then(timestamp) else { continue };
        events.extend(
            status.conditions.iter().map(|condition| event(time, EventKind::Condition, describe(key, condition))),
        );
    }
    events
}
