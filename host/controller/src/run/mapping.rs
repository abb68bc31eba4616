//! The loop of a mapper: takes a change, calls the mapper, and adds the results to the reconciler's queue. A failure of
//! the mapper delays only the item on which it failed.
//!
//! A former version on which the mapper fails is mapped again, as the present one is, since its targets may be unknown
//! otherwise. A later change cannot mend a former version, so it is given up after [`MAX_FORMER_FAILURES`].

use std::sync::{Arc, atomic::Ordering};

use mortise_resource::{EncodedResource, pb, types};
use tokio::time::Instant;

use super::{reconcile::throttle, state::Run, user_code::catch_panic};
use crate::{
    controller::Controller,
    durations::{MAX_REFUSED_WAIT, MIN_REFUSED_WAIT},
    key::{GroupKind, Key},
    loop_detection::Cause,
    mapper::Mapper,
    queue::{ChangedResource, MappingItem, Next, ReconcileItem, SharedQueue},
    reconciler::Context,
    request::{ErrorKind, ReconcileError},
};

/// Failures of the mapper on a former version after which it is given up. The waits between them add up to some three
/// minutes, and to ten after faults of the code. Each version waits by itself: it does not hold up later ones, and their
/// changes do not use up its attempts.
const MAX_FORMER_FAILURES: u32 = 16;

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
        let mapped = map(&run, &mapping, &job.key, &mut job.content).await;
        let item = std::mem::take(&mut job.content);
        let has_failed = job.failures > 0 || mapped.is_err();
        let due = item.changed.as_ref().filter(|changed| changed.now.is_none()).and_then(ChangedResource::former_due);
        let next = match mapped.map_err(|error| (error.kind(), error)) {
            Ok(()) => match due {
                None => Next::Done(None),
                Some(due) => Next::Retry(due.saturating_duration_since(Instant::now()), item),
            },
            Err((ErrorKind::Refused(wait), _)) => Next::Postponed(wait.clamp(MIN_REFUSED_WAIT, MAX_REFUSED_WAIT), item),
            Err((kind, error)) => {
                let quarantined = kind == ErrorKind::Fault;
                let waits = if quarantined { run.definition.quarantine_backoff } else { run.definition.backoff };
                let wait = waits.delay(job.failures);
                if job.failures == 0 {
                    tracing::warn!(controller = &*run.controller.name, resource = %job.key, ?wait, "{} failed: {error}", mapping.place);
                }
                recorder.mapping_failed(&mapping.place, &job.key, error.to_string());
                match (item.changed.as_ref().is_none_or(ChangedResource::is_mapped), due, quarantined) {
                    // The failed version was given up.
                    (true, ..) => Next::Done(None),
                    (false, Some(due), _) => Next::Retry(due.saturating_duration_since(Instant::now()), item),
                    (false, None, true) => Next::Quarantine(wait, item),
                    (false, None, false) => Next::Retry(wait, item),
                }
            }
        };
        if matches!(next, Next::Done(_)) && has_failed {
            recorder.mapping_recovered(&mapping.place, &job.key);
        }
        mapping.queue.finish(job, next);
        tokio::task::consume_budget().await;
    }
}

/// Maps the present version of a resource, then its former ones, so that the old target of a reference is reconciled,
/// too. Adds the results to the reconciler's queue, and leaves the versions in the item that have to be mapped again.
///
/// # Errors
/// The first fault of the code, or else the first error. Versions behind a failed one are mapped all the same, those
/// behind a refused call wait with it.
async fn map(run: &Run, mapping: &Mapping, key: &Key, item: &mut MappingItem) -> Result<(), ReconcileError> {
    let MappingItem { changed: Some(changed), cause } = item else { return Ok(()) };
    let context = Context { run: run.context.clone(), chain: run.controller.writes.known_length(cause) };
    let mut failed = FirstError::default();
    if let Some(now) = changed.now.take()
        && let Err(error) = map_version(run, mapping, &context, &now, cause).await
    {
        changed.now = Some(now);
        failed.add(error);
    }
    for mut former in std::mem::take(&mut changed.former) {
        if failed.was_refused || former.not_before > Instant::now() {
            changed.former.push(former);
            continue;
        }
        let Err(error) = map_version(run, mapping, &context, &former.resource, cause).await else { continue };
        let waits = match error.kind() {
            ErrorKind::Refused(_) => None,
            ErrorKind::Failed => Some(run.definition.backoff),
            ErrorKind::Fault => Some(run.definition.quarantine_backoff),
        };
        if let Some(waits) = waits {
            former.not_before = Instant::now() + waits.delay(former.failures);
            former.failures += 1;
        }
        let error = error.with_subject(format_args!("former version {}", former.resource.version()));
        if former.failures < MAX_FORMER_FAILURES {
            changed.former.push(former);
        } else {
            tracing::warn!(
                controller = &*run.controller.name,
                resource = %key,
                "{} failed {MAX_FORMER_FAILURES} times, and is not tried again: {error}; the targets of this version \
                 alone are reconciled at their next change or resync",
                mapping.place
            );
        }
        failed.add(error);
    }
    failed.error.map_or(Ok(()), Err)
}

/// Maps one version of a resource, and adds the results to the reconciler's queue.
async fn map_version(
    run: &Run,
    mapping: &Mapping,
    context: &Context,
    version: &EncodedResource,
    cause: &Cause,
) -> Result<(), ReconcileError> {
    for id in catch_panic(mapping.mapper.map(context, version)).await? {
        enqueue(run, mapping, &id, cause);
    }
    Ok(())
}

/// The error that decides when an item is mapped again.
#[derive(Default)]
struct FirstError {
    error: Option<ReconcileError>,
    /// A call was refused, as the next ones would be.
    was_refused: bool,
}

impl FirstError {
    /// Adds an error. A fault replaces a plain error, and both replace a refusal.
    fn add(&mut self, error: ReconcileError) {
        let rank = |error: &ReconcileError| match error.kind() {
            ErrorKind::Refused(_) => 0,
            ErrorKind::Failed => 1,
            ErrorKind::Fault => 2,
        };
        self.was_refused |= matches!(error.kind(), ErrorKind::Refused(_));
        if self.error.as_ref().is_none_or(|first| rank(first) < rank(&error)) {
            self.error = Some(error);
        }
    }
}

/// Adds one result to the reconciler's queue, if it is of the managed type.
fn enqueue(run: &Run, mapping: &Mapping, id: &pb::Id, cause: &Cause) {
    let managed = GroupKind::from(&run.definition.managed);
    if id.r#type.as_ref().is_some_and(|resource_type| managed.matches(resource_type)) && !id.name.is_empty() {
        run.controller.queue.add(&Key::of(id), ReconcileItem::new(&id.uid, cause.clone()));
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
