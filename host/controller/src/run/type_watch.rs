//! The watch of one type: fills the cache, then queues changes for the reconciler and the mappers.
//!
//! The watch that primes the cache continues: a change that arrives while other types are still being primed goes into
//! the cache, and so into the snapshot that is queued when all types are primed.

use std::sync::Arc;

use mortise_resource::{EncodedResource, pb, types};

use super::{
    mapping::Mapping,
    priming::Priming,
    state::{Run, RunError},
};
use crate::{
    cache::Cache,
    key::Key,
    loop_detection::Cause,
    queue::{ChangedResource, FormerVersion, MappingItem, ReconcileItem},
    source::Event,
    status::INDEX_PLACE_PREFIX,
};

/// A type that a run watches, and the queues of its changes.
pub(crate) struct WatchedType {
    pub(crate) resource_type: pb::Type,
    /// Whether it is the managed type: its changes are queued for the reconciler.
    pub(crate) managed: bool,
    /// The mapper that its changes are queued for.
    pub(crate) mapping: Option<Arc<Mapping>>,
}

/// Phase of the watch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Events go into the cache only.
    Priming,
    /// The snapshot is complete; events still go into the cache only.
    Primed,
    /// Events go into the cache and into the queues.
    Live,
}

/// Watches a type until the watch breaks. `before` is the cache of the previous run.
///
/// # Errors
/// [`RunError::Watch`], always: a watch never ends otherwise.
pub(crate) async fn watch_type(
    run: Arc<Run>,
    watched: WatchedType,
    priming: Arc<Priming>,
    before: Option<Arc<Cache>>,
) -> Result<(), RunError> {
    let broken = |source| RunError::Watch { resource_type: types::gvk(&watched.resource_type), source };
    let mut watch = run.source.watch(&watched.resource_type).await.map_err(broken)?;
    let mut phase = Phase::Priming;
    let mut before = before;
    loop {
        // The future is not dropped when the signal comes: it may be in the middle of an event.
        let mut next = watch.next();
        let event = loop {
            tokio::select! {
                biased;
                () = priming.all_primed.cancelled(), if phase == Phase::Primed => {
                    phase = Phase::Live;
                    queue_snapshot(&run, &watched, before.take()).await;
                    priming.type_queued();
                }
                event = &mut next => break event.map_err(broken)?,
            }
        };
        drop(next);
        match event {
            Event::EndOfSnapshot if phase == Phase::Priming => {
                phase = Phase::Primed;
                priming.type_primed();
            }
            Event::EndOfSnapshot => {}
            Event::Upsert(resource) => apply(&run, &watched, phase, &resource, false),
            Event::Delete(resource) => apply(&run, &watched, phase, &resource, true),
        }
        tokio::task::consume_budget().await;
    }
}

/// Queues every cached resource of the type, and every resource that the previous run had cached and that no longer
/// exists.
async fn queue_snapshot(run: &Run, watched: &WatchedType, before: Option<Arc<Cache>>) {
    let cache = &run.context.cache;
    for (key, resource) in cache.all(&watched.resource_type) {
        let was = before.as_ref().and_then(|before| before.at(&watched.resource_type, &key));
        enqueue(
            run,
            watched,
            &key,
            &resource,
            was.filter(|was| was.version() != resource.version()),
            run.controller.writes.cause_of(&resource, false),
        );
        tokio::task::consume_budget().await;
    }
    for (key, resource) in before.map(|before| before.all(&watched.resource_type)).unwrap_or_default() {
        if !cache.has(&watched.resource_type, &key) {
            run.controller.recorder.index_recovered(&watched.resource_type, &key, &[]);
            enqueue(run, watched, &key, &resource, None, Cause::from_outside());
        }
        tokio::task::consume_budget().await;
    }
}

/// Applies an event to the cache and, when the watch is live, queues it.
fn apply(run: &Run, watched: &WatchedType, phase: Phase, resource: &Arc<EncodedResource>, deleted: bool) {
    if resource.name().is_empty() {
        tracing::error!(
            controller = &*run.controller.name,
            "an event of type {} has no name; it is ignored",
            types::gvk(&watched.resource_type)
        );
        return;
    }
    let cache = &run.context.cache;
    let applied = if deleted {
        cache.remove(&watched.resource_type, resource.id())
    } else {
        cache.upsert(&watched.resource_type, resource)
    };
    let mut failed = Vec::new();
    for (index, error) in applied.faults {
        let place = format!("{INDEX_PLACE_PREFIX}{index:?} of {}", types::gvk(&watched.resource_type)).into();
        let message = format!("operation on index {index:?} failed: {error}");
        let count = run.controller.recorder.index_failed(&place, &applied.key, message.clone());
        // Logs the first one, and then ever fewer: each resource of a type may fail.
        if count.is_power_of_two() {
            tracing::warn!(
                controller = &*run.controller.name, resource = %applied.key, so_far = count,
                "{message}; the resource is cached, but not found through this index"
            );
        }
        failed.push(place);
    }
    run.controller.recorder.index_recovered(&watched.resource_type, &applied.key, &failed);
    if phase == Phase::Live {
        let cause = run.controller.writes.cause_of(resource, deleted);
        enqueue(run, watched, &applied.key, resource, applied.old, cause);
    }
}

/// Queues a change for the reconciler, the mapper, or both.
fn enqueue(
    run: &Run,
    watched: &WatchedType,
    key: &Key,
    now: &Arc<EncodedResource>,
    was: Option<Arc<EncodedResource>>,
    cause: Cause,
) {
    if let Some(mapping) = &watched.mapping {
        // The generation stays the same when only the status changes, and a status holds no reference.
        let moved = |was: &Arc<EncodedResource>| was.generation() != now.generation() || was.generation().is_empty();
        let former = was.filter(|was| mapping.mapper.follows() && moved(was)).map(FormerVersion::new);
        let changed = Some(ChangedResource { now: Some(now.clone()), former: former.into_iter().collect() });
        mapping.queue.add(key, MappingItem { changed, cause: cause.clone() });
    }
    if watched.managed {
        run.controller.queue.add(key, ReconcileItem::new(now.uid(), cause));
    }
}
