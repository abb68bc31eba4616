//! The loop of one mapper: takes what changed, asks the mapper, and puts the results into the reconciler's queue. A mapper
//! that fails holds up nothing but the item it failed on.

use std::sync::{Arc, atomic::Ordering};

use mortise_resource::{pb, types};

use crate::{
    core::{Core, guard},
    custom::CustomSource,
    item::{Item, Subject, Wake},
    key::{Key, Slot},
    mapper::Mapper,
    queue::Next,
    request::ReconcileError,
    run::Run,
    work::Work,
};

/// A mapper with its queue.
pub(crate) struct Mapping {
    /// For notes and logs: `map demo.v2.Album`.
    pub(crate) place: Arc<str>,
    pub(crate) with: With,
    pub(crate) work: Arc<Work<Item>>,
}

/// Who maps.
pub(crate) enum With {
    /// Resources of a watched type.
    Mapper(Arc<Mapper>),
    /// Events from elsewhere.
    Source(Arc<dyn CustomSource>),
}

impl Mapping {
    pub(crate) fn of_type(core: &Core, of: &pb::Type, mapper: Arc<Mapper>) -> Self {
        Self::new(core, format!("map {}", types::gvk(of)), With::Mapper(mapper))
    }

    pub(crate) fn of_source(core: &Core, source: Arc<dyn CustomSource>) -> Self {
        Self::new(core, format!("map {}", source.name()), With::Source(source))
    }

    /// With the queue that the run before left.
    fn new(core: &Core, place: String, with: With) -> Self {
        let place: Arc<str> = place.into();
        let work = core.mappings.lock().entry(place.clone()).or_insert_with(|| Arc::new(Work::new())).clone();
        Self { place, with, work }
    }

    /// Whether former versions are to be mapped too.
    pub(crate) fn follows(&self) -> bool {
        matches!(&self.with, With::Mapper(mapper) if mapper.follows())
    }
}

/// Works until the queue is closed.
pub(crate) async fn mapping_loop(run: Arc<Run>, mapping: Arc<Mapping>) {
    let board = &run.core.board;
    while let Some(mut job) = mapping.work.next(|_, _, _| None).await {
        match guard(map(&run, &mapping, &job.content)).await {
            Ok(ids) => {
                for id in ids {
                    enqueue(&run, &mapping, &id, &job.content);
                }
                if job.failures > 0 {
                    board.mapping_recovered(&mapping.place, &job.key);
                }
                mapping.work.finish(job, Next::Done(None));
            }
            Err(error) => {
                let wait = run.definition.backoff.delay(job.failures);
                if job.failures == 0 {
                    tracing::warn!(controller = &*run.core.name, resource = %job.key, ?wait, "{} failed: {error}", mapping.place);
                }
                board.mapping_failed(&mapping.place, &job.key, error.to_string());
                let item = std::mem::take(&mut job.content);
                mapping.work.finish(job, Next::Retry(wait, item));
            }
        }
        tokio::task::consume_budget().await;
    }
}

/// What an item leads to: now, and what it led to before.
async fn map(run: &Run, mapping: &Mapping, item: &Item) -> Result<Vec<pb::Id>, ReconcileError> {
    let cache = &run.shared.cache;
    match (&item.subject, &mapping.with) {
        (Some(Subject::Resource { now, former }), With::Mapper(mapper)) => {
            let mut ids = mapper.map(&run.definition.managed, cache, now).await?;
            for was in former {
                // What a mapper could not make sense of then, it cannot now: it led nowhere, and must not hold up what is.
                match mapper.map(&run.definition.managed, cache, was).await {
                    Ok(led) => ids.extend(led),
                    Err(e) => tracing::debug!(controller = &*run.core.name, "{}, as it was before: {e}", mapping.place),
                }
            }
            Ok(ids)
        }
        (Some(Subject::Custom(event)), With::Source(source)) => source.map(cache, event).await,
        _ => Ok(Vec::new()),
    }
}

/// Puts one result into the reconciler's queue, if it is one of the managed type.
fn enqueue(run: &Run, mapping: &Mapping, id: &pb::Id, item: &Item) {
    let managed = Slot::from(&run.definition.managed);
    if id.r#type.as_ref().is_some_and(|of| managed.holds(of)) && !id.name.is_empty() {
        run.core.work.add(&Key::of(id), Wake::new(id, item.cause.clone()));
        return;
    }
    let before = run.core.board.mapper_skipped.fetch_add(1, Ordering::Relaxed);
    if !(before + 1).is_power_of_two() {
        return;
    }
    // The first, and then ever fewer: each resource of a type may lead here.
    tracing::error!(
        controller = &*run.core.name,
        so_far = before + 1,
        "{} led to {}, which is no resource of the managed type {}; it is left out. Let the mapper return ids of that type only",
        mapping.place,
        types::describe(id),
        types::gvk(&run.definition.managed)
    );
}
