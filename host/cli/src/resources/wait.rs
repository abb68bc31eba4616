//! Waits for states of resources, for resources to be there, and for them to be gone.
//!
//! A state is waited for by a watch of each type and place; after the end of a watch, a new one waits for the
//! resources that are still pending. A resource to be created or
//! deleted is read again and again, with pauses from 20 ms to 1 s. Every wait ends after `--timeout` with [`Exit::TimedOut`].

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use mortise_resource::{
    backoff::{Backoff, Waits},
    pb::{self, watch_event::Event},
    types::Gvk,
};
use tokio::time::{Instant, timeout_at};

use super::{
    catalog::Catalog,
    ids::{Key, id_of, placed_title, read_if_there},
    state::WantedState,
};
use crate::{CliError, Exit, Session};

/// Most resources named after a timeout.
const MAX_NAMED: usize = 10;

/// Type, partition and namespace of a watch.
type WatchKey = (Gvk, String, String);

/// Waits until all are in a state, at most for the session's timeout.
pub(crate) async fn until(
    session: &Session,
    catalog: &Catalog,
    all: &[pb::Resource],
    state: &WantedState,
) -> Result<(), CliError> {
    let mut places: BTreeMap<WatchKey, HashMap<Key, String>> = BTreeMap::new();
    for resource in all.iter().filter(|resource| !state.holds(resource, catalog)) {
        let id = id_of(resource);
        let tenancy = id.tenancy.clone().unwrap_or_default();
        let place = (id.r#type.as_ref().map(Gvk::from), tenancy.partition, tenancy.namespace);
        if let (Some(ty), partition, namespace) = place {
            let text = format!("{}: {}", placed_title(&id), state.instead(resource, catalog));
            places.entry((ty, partition, namespace)).or_default().insert(Key::of(&id), text);
        }
    }
    let deadline = Instant::now() + session.timeout();
    for (place, mut pending) in places {
        match timeout_at(deadline, watch(session, catalog, &place, state, &mut pending)).await {
            Ok(ended) => ended?,
            Err(_) => return Err(in_vain(format!("{state} within {:?}", session.timeout()), pending)),
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
    catalog: &Catalog,
    (ty, partition, namespace): &WatchKey,
    state: &WantedState,
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
            if state.holds(&resource, catalog) {
                pending.remove(&key);
            } else {
                *reason = format!("{}: {}", placed_title(&id), state.instead(&resource, catalog));
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
    while let Some(resource) = read_if_there(session, id).await? {
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

/// Waits until a resource exists, at most for the session's timeout.
pub(crate) async fn until_there(session: &Session, id: &pb::Id) -> Result<(), CliError> {
    let deadline = Instant::now() + session.timeout();
    let mut waits = Waits::new(Backoff::new(MIN_READ_PAUSE, MAX_READ_PAUSE));
    while read_if_there(session, id).await?.is_none() {
        let pause = waits.next_wait();
        if Instant::now() + pause > deadline {
            let name = placed_title(id);
            let pending = HashMap::from([(Key::of(id), format!("{name}: it does not exist"))]);
            return Err(in_vain(format!("{name} to exist within {:?}", session.timeout()), pending));
        }
        tokio::time::sleep(pause).await;
    }
    Ok(())
}
