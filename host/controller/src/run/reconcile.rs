//! The reconcile loop: takes a key, calls the reconciler, records the outcome, and gives the key back. One loop runs
//! for each key that may be reconciled at once.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tracing::{Instrument as _, field::Empty};

use super::{state::Run, user_code::catch_panic};
use crate::{
    durations::{MAX_REFUSED_WAIT, MIN_PACED_DELAY, MIN_REFUSED_WAIT},
    key::Key,
    loop_detection::Cause,
    queue::{Job, Next, ReconcileItem},
    reconciler::Context,
    request::{ErrorKind, Outcome, ReconcileError, Request},
    status::{RECONCILE_PLACE, count},
};

/// Reconciles keys until the queue is closed.
pub(crate) async fn reconcile_loop(run: Arc<Run>) {
    let controller = &run.controller;
    let throttled = |key: &Key, item: &mut ReconcileItem, timer_fired| {
        throttle(&run, RECONCILE_PLACE, key, controller.writes.chain_length(&mut item.cause), timer_fired)
    };
    while let Some(mut job) = controller.queue.next(throttled).await {
        let chain = controller.writes.chain_length(&mut job.content.cause);
        let request = Request { key: job.key.clone(), uid: job.content.uid.clone() };
        let context = Context { run: run.context.clone(), chain };
        let span = tracing::debug_span!(
            target: "mortise::span", "reconcile", controller = &*controller.name, resource = %job.key, outcome = Empty
        );
        let begun = Instant::now();
        let call = catch_panic(async { run.definition.reconciler.reconcile(&context, request).await });
        let result = call.instrument(span.clone()).await;
        if let Err(error) = &result
            && let ErrorKind::Refused(wait) = error.kind()
        {
            span.record("outcome", "refused");
            let item = std::mem::take(&mut job.content);
            controller.queue.finish(job, Next::Postponed(wait.clamp(MIN_REFUSED_WAIT, MAX_REFUSED_WAIT), item));
            continue;
        }
        controller.recorder.metrics.seconds.record(begun.elapsed());
        count(&controller.recorder.reconciles);
        finish(&run, job, chain, result, &span);
        // Reconciles that never await must not keep the thread to themselves.
        tokio::task::consume_budget().await;
    }
}

/// The wait of a key that keeps waking itself; `None` when it may run. Called with the queue of `place` locked.
pub(super) fn throttle(run: &Run, place: &str, key: &Key, chain: u32, timer_fired: bool) -> Option<Duration> {
    let wait = wait_of(run, chain)?;
    if timer_fired {
        return None;
    }
    note_throttled(run, place, key, chain, wait);
    Some(wait)
}

/// The wait before a link of a chain of this length; `None` while the chain is not too long.
fn wait_of(run: &Run, chain: u32) -> Option<Duration> {
    let beyond = chain.checked_sub(run.definition.self_wake_limit)?.checked_sub(1)?;
    Some(run.definition.backoff.delay(beyond))
}

/// Counts a key that waits because it keeps waking itself.
fn note_throttled(run: &Run, place: &str, key: &Key, chain: u32, wait: Duration) {
    let controller = &run.controller;
    count(&controller.recorder.self_wakes);
    controller.recorder.metrics.self_wakes.increment(1);
    if chain == run.definition.self_wake_limit.saturating_add(1) {
        // Each link of a chain passes here once, so a chain logs this once.
        tracing::warn!(
            controller = &*controller.name, resource = %key,
            "the controller keeps waking itself ({place}): {chain} calls in a row were caused by its own writes and requeues. \
             Each further call waits, from {wait:?} on and doubling, until something else changes. Let it write only \
             real changes, and ask to be called again only when it waits for something"
        );
    }
}

/// Next step after a reconcile that asked to be called again after `wait`: at once or after less than
/// [`MIN_PACED_DELAY`], it is a link of the chain.
fn requeue(run: &Run, job: &Job<ReconcileItem>, chain: u32, wait: Duration) -> Next<ReconcileItem> {
    let uid = job.content.uid.clone();
    if wait >= MIN_PACED_DELAY {
        // A timer has no cause of its own; only the incarnation is kept.
        return Next::After(wait, ReconcileItem { uid, ..ReconcileItem::default() });
    }
    let item = ReconcileItem { uid, cause: Cause::next_link(chain) };
    match wait_of(run, chain.saturating_add(1)) {
        Some(slowed) => {
            let wait = slowed.min(MIN_PACED_DELAY).max(wait);
            note_throttled(run, RECONCILE_PLACE, &job.key, chain.saturating_add(1), wait);
            Next::Throttled(wait, item)
        }
        None if wait.is_zero() => Next::Now(item),
        None => Next::After(wait, item),
    }
}

/// Records the outcome of a reconcile, and gives the key back to the queue.
fn finish(
    run: &Run,
    job: Job<ReconcileItem>,
    chain: u32,
    result: Result<Outcome, ReconcileError>,
    span: &tracing::Span,
) {
    let (recorder, metrics) = (&run.controller.recorder, &run.controller.recorder.metrics);
    if result.is_ok() && job.failures > 0 {
        recorder.recovered(&job.key);
    }
    let mut reason = None;
    let (label, counter, next) = match result {
        Ok(Outcome::Done) => {
            let exists = run.context.cache.has(&run.definition.managed, &job.key);
            ("done", &metrics.done, Next::Done(run.definition.resync.filter(|_| exists).map(jittered)))
        }
        Ok(Outcome::Now) => ("now", &metrics.now, requeue(run, &job, chain, Duration::ZERO)),
        Ok(Outcome::After(wait)) => ("after", &metrics.after, requeue(run, &job, chain, wait)),
        Ok(Outcome::Deferred(wait, why)) => {
            reason = Some(why);
            ("deferred", &metrics.deferred, requeue(run, &job, chain, wait))
        }
        Err(error) => {
            let quarantined = error.kind() == ErrorKind::Fault;
            let waits = if quarantined { run.definition.quarantine_backoff } else { run.definition.backoff };
            let wait = waits.delay(job.failures);
            let item = ReconcileItem { uid: job.content.uid.clone(), cause: job.content.cause.clone() };
            if job.failures == 0 {
                tracing::warn!(controller = &*run.controller.name, resource = %job.key, ?wait, "reconcile failed: {error}");
            } else {
                tracing::debug!(controller = &*run.controller.name, resource = %job.key, ?wait, "reconcile failed: {error}");
            }
            recorder.failed(&job.key, error.to_string());
            ("error", &metrics.error, if quarantined { Next::Quarantine(wait, item) } else { Next::Retry(wait, item) })
        }
    };
    counter.increment(1);
    span.record("outcome", label);
    if matches!(next, Next::Now(_) | Next::After(..) | Next::Throttled(..)) {
        count(&recorder.requeues);
        metrics.requeues.increment(1);
    }
    recorder.deferred(&job.key, reason);
    run.controller.queue.finish(job, next);
}

/// 0.8 to 1.0 of the interval, as in Consul, so that resources that were created together are not resynced together.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.8 + 0.2 * fastrand::f64())
}
