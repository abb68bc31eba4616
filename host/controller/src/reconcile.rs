//! The reconcile loop: takes a key, calls the reconciler, and sees to what follows. There are as many of it as keys may be
//! reconciled at once.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use tracing::{Instrument as _, field::Empty};

use crate::{
    core::guard,
    item::Wake,
    key::Key,
    queue::{Job, Next},
    reconciler::Context,
    request::{Outcome, ReconcileError, Request},
    run::Run,
    status::count,
};

/// Works until the queue is closed.
pub(crate) async fn reconcile_loop(run: Arc<Run>) {
    let core = &run.core;
    while let Some(mut job) = core.work.next(|key, wake, served| hold(&run, key, wake, served)).await {
        let chain = core.writes.settle(&mut job.content.cause);
        let request = Request { key: job.key.clone(), uid: job.content.uid.clone() };
        let context = Context { run: run.shared.clone(), chain };
        let span = tracing::debug_span!(
            target: "mortise::span", "reconcile", controller = &*core.name, resource = %job.key, outcome = Empty
        );
        let begun = Instant::now();
        let call = guard(async { run.definition.reconciler.reconcile(&context, request).await });
        let result = call.instrument(span.clone()).await;
        core.board.meter.seconds.record(begun.elapsed());
        count(&core.board.reconciles);
        settle(&run, job, result, &span);
        // Reconciles that never wait must not keep the thread to themselves.
        tokio::task::consume_budget().await;
    }
}

/// Whether a key that woke itself has to wait, and how long. Called with the queue locked.
fn hold(run: &Run, key: &Key, wake: &mut Wake, served: bool) -> Option<Duration> {
    let core = &run.core;
    let chain = core.writes.settle(&mut wake.cause);
    let beyond = chain.checked_sub(run.definition.self_wakes)?.checked_sub(1)?;
    if served {
        return None;
    }
    count(&core.board.self_wakes);
    core.board.meter.self_wakes.increment(1);
    let wait = run.definition.backoff.delay(beyond);
    if beyond == 0 {
        // Each link of a chain passes here once, so this is said once for each.
        tracing::warn!(
            controller = &*core.name, resource = %key,
            "the controller keeps waking itself: {chain} reconciles in a row were caused by its own writes. Each further one \
             waits, {wait:?} and doubling, until something else changes. It should write only what differs from what is stored"
        );
    }
    Some(wait)
}

/// Counts how a reconcile ended, and gives the key back to the queue.
fn settle(run: &Run, job: Job<Wake>, result: Result<Outcome, ReconcileError>, span: &tracing::Span) {
    let (board, meter) = (&run.core.board, &run.core.board.meter);
    if result.is_ok() && job.failures > 0 {
        board.recovered(&job.key);
    }
    // A timer has no cause of its own; what is kept is which incarnation it is about.
    let timed = |job: &Job<Wake>| Wake { uid: job.content.uid.clone(), ..Wake::default() };
    let mut reason = None;
    let (label, counter, next) = match result {
        Ok(Outcome::Done) => {
            let exists = run.shared.cache.has(&run.definition.managed, &job.key);
            ("done", &meter.done, Next::Done(run.definition.resync.filter(|_| exists).map(jittered)))
        }
        Ok(Outcome::Now) => ("now", &meter.now, Next::Now(timed(&job))),
        Ok(Outcome::After(wait)) => ("after", &meter.after, Next::After(wait, timed(&job))),
        Ok(Outcome::Deferred(wait, why)) => {
            reason = Some(why);
            ("deferred", &meter.deferred, Next::After(wait, timed(&job)))
        }
        Err(error) => {
            let wait = run.definition.backoff.delay(job.failures);
            let wake = Wake { uid: job.content.uid.clone(), cause: job.content.cause.clone() };
            if job.failures == 0 {
                tracing::warn!(controller = &*run.core.name, resource = %job.key, ?wait, "reconcile failed: {error}");
            } else {
                tracing::debug!(controller = &*run.core.name, resource = %job.key, ?wait, "reconcile failed: {error}");
            }
            board.failed(&job.key, error.to_string());
            ("error", &meter.error, Next::Retry(wait, wake))
        }
    };
    counter.increment(1);
    span.record("outcome", label);
    if matches!(next, Next::Now(_) | Next::After(..)) {
        count(&board.requeues);
        meter.requeues.increment(1);
    }
    board.deferred(&job.key, reason);
    run.core.work.finish(job, next);
}

/// 0.8 to 1.0 of the interval, as in Consul, so that what was created together is not resynced together.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.8 + 0.2 * fastrand::f64())
}
