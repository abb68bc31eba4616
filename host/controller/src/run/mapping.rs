//! The loop of a mapper: takes a change, calls the mapper, and adds the results to the reconciler's queue. A failure of
//! the mapper delays only the item on which it failed.

use std::sync::{Arc, atomic::Ordering};

use mortise_resource::{pb, types};

use super::{reconcile::throttle, state::Run, user_code::catch_panic};
use crate::{
    controller::Controller,
    durations::{MAX_REFUSED_WAIT, MIN_REFUSED_WAIT},
    key::{GroupKind, Key},
    mapper::Mapper,
    queue::{MappingItem, Next, ReconcileItem, SharedQueue},
    reconciler::Context,
    request::{ErrorKind, ReconcileError},
};

/// A mapper with its queue.
pub(crate) struct Mapping {
    /// The name of the mapping in errors and logs: `map demo.v2.Album`.
    pub(crate) place: Arc<str>,
    pub(crate) mapper: Arc<Mapper>,
    pub(crate) queue: Arc<SharedQueue<MappingItem>>,
}

impl Mapping {
    /// The mapping of a watched type, with the queue that the previous run left.
    pub(crate) fn new(controller: &Controller, resource_type: &pb::Type, mapper: Arc<Mapper>) -> Self {
        let place: Arc<str> = format!("map {}", types::gvk(resource_type)).into();
        let mut mappings = controller.mappings.lock();
        let queue = mappings.entry(place.clone()).or_insert_with(|| Arc::new(SharedQueue::new())).clone();
        Self { place, mapper, queue }
    }
}

/// Maps changes until the queue is closed.
pub(crate) async fn mapping_loop(run: Arc<Run>, mapping: Arc<Mapping>) {
    let recorder = &run.controller.recorder;
    // Only a custom mapper may write; chains through the others are slowed down in the reconciler's queue.
    let may_write = matches!(*mapping.mapper, Mapper::Custom(_));
    let throttled = |key: &Key, item: &mut MappingItem, timer_fired| {
        let chain = if may_write { run.controller.writes.known_length(&item.cause) } else { 0 };
        throttle(&run, &mapping.place, key, chain, timer_fired)
    };
    while let Some(mut job) = mapping.queue.next(throttled).await {
        match catch_panic(map(&run, &mapping, &job.content)).await {
            Ok(ids) => {
                for id in ids {
                    enqueue(&run, &mapping, &id, &job.content);
                }
                if job.failures > 0 {
                    recorder.mapping_recovered(&mapping.place, &job.key);
                }
                mapping.queue.finish(job, Next::Done(None));
            }
            Err(error) => {
                let item = std::mem::take(&mut job.content);
                let quarantined = match error.kind() {
                    ErrorKind::Refused(wait) => {
                        mapping
                            .queue
                            .finish(job, Next::Postponed(wait.clamp(MIN_REFUSED_WAIT, MAX_REFUSED_WAIT), item));
                        continue;
                    }
                    kind => kind == ErrorKind::Fault,
                };
                let waits = if quarantined { run.definition.quarantine_backoff } else { run.definition.backoff };
                let wait = waits.delay(job.failures);
                if job.failures == 0 {
                    tracing::warn!(controller = &*run.controller.name, resource = %job.key, ?wait, "{} failed: {error}", mapping.place);
                }
                recorder.mapping_failed(&mapping.place, &job.key, error.to_string());
                mapping
                    .queue
                    .finish(job, if quarantined { Next::Quarantine(wait, item) } else { Next::Retry(wait, item) });
            }
        }
        tokio::task::consume_budget().await;
    }
}

/// The results of the mapper for the current version of a resource, and for its former versions, so that the old target
/// of a reference is reconciled, too.
async fn map(run: &Run, mapping: &Mapping, item: &MappingItem) -> Result<Vec<pb::Id>, ReconcileError> {
    let chain = run.controller.writes.known_length(&item.cause);
    let context = Context { run: run.context.clone(), chain };
    let Some(changed) = &item.changed else { return Ok(Vec::new()) };
    let mut ids = mapping.mapper.map(&context, &changed.now).await?;
    for was in &changed.former {
        // A former version that cannot be mapped now could not be mapped then either; it must not delay the current
        // one.
        match mapping.mapper.map(&context, was).await {
            Ok(former) => ids.extend(former),
            Err(e) => tracing::debug!(
                controller = &*run.controller.name,
                "{} failed for a former version: {e}",
                mapping.place
            ),
        }
    }
    Ok(ids)
}

/// Adds one result to the reconciler's queue, if it is of the managed type.
fn enqueue(run: &Run, mapping: &Mapping, id: &pb::Id, item: &MappingItem) {
    let managed = GroupKind::from(&run.definition.managed);
    if id.r#type.as_ref().is_some_and(|resource_type| managed.matches(resource_type)) && !id.name.is_empty() {
        run.controller.queue.add(&Key::of(id), ReconcileItem::new(&id.uid, item.cause.clone()));
        return;
    }
    let before = run.controller.recorder.mapper_skipped.fetch_add(1, Ordering::Relaxed);
    if !(before + 1).is_power_of_two() {
        return;
    }
    // Logs the first one, and then ever fewer: each resource of a type may cause this.
    tracing::error!(
        controller = &*run.controller.name,
        so_far = before + 1,
        "{} returned {}, which is not a resource of the managed type {}; it is skipped. Let the mapper \
         return only ids of that type",
        mapping.place,
        types::describe(id),
        types::gvk(&run.definition.managed)
    );
}
