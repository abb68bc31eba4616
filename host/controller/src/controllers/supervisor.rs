//! Keeps a controller running: waits for its lease, starts runs, ends them, and starts them again. There is one run at
//! a time: the next step begins only after a run is over, so that a lease that is lost and regained at once never makes
//! two runs.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    cache::Cache,
    controller::Controller,
    definition::Definition,
    key::GroupKind,
    lease::{Lease, Leases, Placement},
    request::ReconcileError,
    restart_backoff::RestartBackoff,
    run::run,
    source::Source,
    status::State,
};

/// The desired state of a controller.
#[derive(Clone)]
pub(crate) struct DesiredState {
    pub(crate) definition: Arc<Definition>,
    /// Number of changes so far.
    pub(crate) revision: u64,
    pub(crate) mode: Mode,
}

/// Desired mode of a controller.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    Run,
    /// Do not run, for this reason.
    Pause(String),
    /// End for good.
    Stop,
}

/// Keeps a controller running until it is stopped.
pub(crate) struct Supervisor {
    pub(crate) controller: Arc<Controller>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) leases: Arc<dyn Leases>,
    pub(crate) wanted: watch::Receiver<DesiredState>,
    /// The applied revision: no code of an older one runs any more. `u64::MAX` when the supervisor has ended.
    pub(crate) applied: watch::Sender<u64>,
}

/// The reason for the end of a run.
enum EndReason {
    ByItself(String),
    LeaseLost,
    StateChanged,
}

impl Supervisor {
    /// Supervises until the desired state is [`Mode::Stop`], or its sender is dropped. A panic in here is a defect of
    /// this crate; the controller then starts again, as after any other end of a run.
    pub(crate) async fn supervise(mut self) {
        let mut restarts = RestartBackoff::default();
        loop {
            let begun = Instant::now();
            let Err(panic) = AssertUnwindSafe(self.follow()).catch_unwind().await else { break };
            let error = format!("the supervisor failed: {}", ReconcileError::panicked(&*panic));
            tracing::error!(controller = &*self.controller.name, "the controller restarts: {error}");
            self.controller.recorder.run_failed(error.clone());
            let until = Instant::now() + restarts.after(begun.elapsed());
            self.controller.recorder.set(State::BackingOff { until, error });
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                // A dropped sender ends the loop below.
                _ = self.wanted.changed() => {}
            }
        }
        self.controller.clear();
        self.controller.recorder.set(State::Stopped);
        self.applied.send_replace(u64::MAX);
    }

    async fn follow(&mut self) {
        let mut restarts = RestartBackoff::default();
        let mut known: Option<Arc<Cache>> = None;
        let mut managed: Option<GroupKind> = None;
        let mut definition: Option<Arc<Definition>> = None;
        let mut pause: Option<(Instant, String)> = None;
        let mut revision = None;
        let mut leased: Option<(Placement, Lease)> = None;
        while self.wanted.has_changed().is_ok() {
            let wanted = self.wanted.borrow_and_update().clone();
            if revision.replace(wanted.revision) != Some(wanted.revision) {
                // A change takes effect at once.
                restarts.reset();
                pause = None;
            }
            let group_kind = GroupKind::from(wanted.definition.managed());
            if managed.replace(group_kind.clone()).is_some_and(|before| before != group_kind) {
                self.controller.clear();
                known = None;
            }
            let before = definition.replace(wanted.definition.clone());
            if before.is_some_and(|before| !Arc::ptr_eq(&before, &wanted.definition)) {
                self.controller.release();
            }
            match &wanted.mode {
                Mode::Stop => break,
                Mode::Pause(reason) => {
                    leased = None;
                    self.controller.recorder.set(State::Paused { reason: reason.clone() });
                    self.applied.send_replace(wanted.revision);
                    // A dropped sender is noticed above.
                    let _ = self.wanted.changed().await;
                    continue;
                }
                Mode::Run => {}
            }
            let placement = wanted.definition.placement;
            if leased.as_ref().is_some_and(|(before, _)| *before != placement) {
                leased = None;
            }
            let make = || (placement, Lease::new(placement, &*self.leases, wanted.definition.name()));
            let (_, lease) = leased.get_or_insert_with(make);
            self.controller.recorder.set(State::WaitingForLease);
            self.applied.send_replace(wanted.revision);
            tokio::select! {
                biased;
                () = lease.wait_until(true) => {}
                _ = self.wanted.changed() => continue,
            }
            if let Some((until, error)) = pause.take() {
                self.controller.recorder.set(State::BackingOff { until, error });
                tokio::select! {
                    () = tokio::time::sleep_until(until) => {}
                    () = lease.wait_until(false) => {
                        restarts.reset();
                        continue;
                    }
                    _ = self.wanted.changed() => continue,
                }
            }
            let begun = Instant::now();
            match Self::run(&self.controller, &self.source, &mut self.wanted, &wanted.definition, lease, &mut known)
                .await
            {
                EndReason::ByItself(error) => {
                    let wait = restarts.after(begun.elapsed());
                    tracing::warn!(controller = wanted.definition.name(), ?wait, "the controller restarts: {error}");
                    self.controller.recorder.run_failed(error.clone());
                    pause = (wait > Duration::ZERO).then(|| (Instant::now() + wait, error));
                }
                EndReason::LeaseLost => {
                    // Another server takes over; this cache will be out of date when the lease returns.
                    restarts.reset();
                    known = None;
                    self.controller.clear();
                }
                EndReason::StateChanged => {}
            }
        }
    }

    /// Makes a run, and waits until all of its tasks have ended.
    async fn run(
        controller: &Arc<Controller>,
        source: &Arc<dyn Source>,
        desired: &mut watch::Receiver<DesiredState>,
        definition: &Arc<Definition>,
        lease: &mut Lease,
        known: &mut Option<Arc<Cache>>,
    ) -> EndReason {
        let ending = CancellationToken::new();
        let running = run(controller, definition, source, known, &ending);
        tokio::pin!(running);
        let ended = tokio::select! {
            biased;
            result = &mut running => {
                return EndReason::ByItself(result.err().map_or_else(|| "the run ended".to_owned(), |e| e.to_string()));
            }
            () = lease.wait_until(false) => EndReason::LeaseLost,
            _ = desired.changed() => EndReason::StateChanged,
        };
        ending.cancel();
        // An error of a run that ends anyway does not count.
        let _ = running.await;
        ended
    }
}
