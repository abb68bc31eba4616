//! One watch of one type: fills the cache, then wakes the reconciler and the mappers.
//!
//! The watch that primes the cache is the one that goes on: what changes while other types are still being primed
//! goes into the cache and is part of the snapshot that is handed out when all of them are.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::{StreamExt as _, stream::BoxStream};
use mortise_resource::{pb, types};

use crate::{
    cache::Cache,
    cause::Cause,
    custom::{BOUND, CustomEvent},
    item::{Item, Subject, Wake},
    key::Key,
    latch::Latch,
    mapping::Mapping,
    run::{Run, RunError},
    source::Event,
    work::Work,
};

/// What all types have to have done before a run goes on.
pub(crate) struct Priming {
    /// The cache is complete.
    pub(crate) primed: Countdown,
    /// What it holds is to be handed out.
    pub(crate) go: Latch,
    /// It is handed out: everything waits in a queue once.
    pub(crate) handed: Countdown,
}

impl Priming {
    pub(crate) fn of(types: usize) -> Self {
        Self { primed: Countdown::from(types), go: Latch::new(), handed: Countdown::from(types) }
    }
}

/// Fires when it was counted down to zero.
pub(crate) struct Countdown {
    left: AtomicUsize,
    pub(crate) zero: Latch,
}

impl Countdown {
    fn from(count: usize) -> Self {
        Self { left: AtomicUsize::new(count), zero: Latch::new() }
    }

    fn one_less(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.zero.fire();
        }
    }
}

/// A type, and who wants to hear of it.
pub(crate) struct Feed {
    pub(crate) of: pb::Type,
    /// It is the managed type: events wake the reconciler.
    pub(crate) managed: bool,
    /// Events go through this mapper.
    pub(crate) mapping: Option<Arc<Mapping>>,
}

/// Whether an event is handed on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Into the cache only.
    Priming,
    /// The same, and the snapshot is complete.
    Primed,
    /// Everywhere.
    Live,
}

/// Watches until the watch breaks.
pub(crate) async fn feed(
    run: Arc<Run>,
    feed: Feed,
    priming: Arc<Priming>,
    before: Option<Arc<Cache>>,
) -> Result<(), RunError> {
    let broken = |error| RunError::Watch { of: types::gvk(&feed.of), error };
    let mut watch = run.source.watch(&feed.of).await.map_err(broken)?;
    let mut phase = Phase::Priming;
    let mut before = before;
    loop {
        // The future is not dropped when the signal comes: it may have an event half way.
        let mut next = watch.next();
        let event = loop {
            tokio::select! {
                biased;
                () = priming.go.fired(), if phase == Phase::Primed => {
                    phase = Phase::Live;
                    hand_out(&run, &feed, before.take()).await;
                    priming.handed.one_less();
                }
                event = &mut next => break event.map_err(broken)?,
            }
        };
        drop(next);
        match event {
            Event::EndOfSnapshot if phase == Phase::Priming => {
                phase = Phase::Primed;
                priming.primed.one_less();
            }
            Event::EndOfSnapshot => {}
            Event::Upsert(resource) => take_in(&run, &feed, phase, &resource, false),
            Event::Delete(resource) => take_in(&run, &feed, phase, &resource, true),
        }
        tokio::task::consume_budget().await;
    }
}

/// Wakes everybody for everything that is there, and for what was there in the run before and is not any more.
async fn hand_out(run: &Run, feed: &Feed, before: Option<Arc<Cache>>) {
    let cache = &run.shared.cache;
    for (key, resource) in cache.all(&feed.of) {
        let was = before.as_ref().and_then(|before| before.at(&feed.of, &key));
        wake(
            run,
            feed,
            &key,
            &resource,
            was.filter(|was| was.version != resource.version),
            run.core.writes.cause_of(&resource, false),
        );
        tokio::task::consume_budget().await;
    }
    for (key, resource) in before.map(|before| before.all(&feed.of)).unwrap_or_default() {
        if !cache.has(&feed.of, &key) {
            wake(run, feed, &key, &resource, None, Cause::foreign());
        }
        tokio::task::consume_budget().await;
    }
}

/// Brings the cache up to date and, when the run is live, wakes who is concerned.
fn take_in(run: &Run, feed: &Feed, phase: Phase, resource: &Arc<pb::Resource>, deleted: bool) {
    let Some(id) = &resource.id else {
        tracing::error!(
            controller = &*run.core.name,
            "an event about {} has no id; it is left out",
            types::gvk(&feed.of)
        );
        return;
    };
    let cache = &run.shared.cache;
    let applied = if deleted { cache.remove(&feed.of, id) } else { cache.upsert(&feed.of, id, resource) };
    for (index, error) in applied.faults {
        let place = format!("index {index:?} of {}", types::gvk(&feed.of)).into();
        let message = format!("operation on index {index:?} failed: {error}");
        let count = run.core.board.index_failed(&place, &applied.key, message.clone());
        // The first, and then ever fewer: each resource of a type may fail.
        if count.is_power_of_two() {
            tracing::warn!(
                controller = &*run.core.name, resource = %applied.key, so_far = count,
                "{message}; the resource is cached, but not found through this index"
            );
        }
    }
    if phase == Phase::Live {
        let cause = run.core.writes.cause_of(resource, deleted);
        wake(run, feed, &applied.key, resource, applied.old, cause);
    }
}

/// Wakes the reconciler, the mapper, or both.
fn wake(run: &Run, feed: &Feed, key: &Key, now: &Arc<pb::Resource>, was: Option<Arc<pb::Resource>>, cause: Cause) {
    if let Some(mapping) = &feed.mapping {
        // The generation stays when only the status changes; that moves no reference.
        let moved = |was: &Arc<pb::Resource>| was.generation != now.generation || was.generation.is_empty();
        let former = was.filter(|was| mapping.follows() && moved(was)).into_iter().collect();
        let subject = Some(Subject::Resource { now: now.clone(), former });
        mapping.work.add(key, Item { subject, cause: cause.clone() });
    }
    if feed.managed
        && let Some(id) = &now.id
    {
        run.core.work.add(key, Wake::new(id, cause));
    }
}

/// Brings the events of another source to their mapper, until the source ends.
pub(crate) async fn pump(mut events: BoxStream<'static, CustomEvent>, work: Arc<Work<Item>>) {
    while let Some(event) = events.next().await {
        work.room(BOUND).await;
        let key = Key::of_event(&event.key);
        work.add(&key, Item { subject: Some(Subject::Custom(event)), cause: Cause::foreign() });
        tokio::task::consume_budget().await;
    }
}
