//! Keeps one controller running: waits for its lease, begins runs, ends them, and begins them anew. One run at a time: a
//! run is over before anything else happens, so that a lease that is lost and regained at once never makes two.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};

use crate::{
    backoff::Restarts,
    cache::Cache,
    core::Core,
    definition::Definition,
    key::Slot,
    latch::Latch,
    lease::{Lease, Leases, Placement},
    run::run,
    source::Source,
    status::State,
};

/// What a controller is to do.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) definition: Arc<Definition>,
    /// Counts the wishes.
    pub(crate) revision: u64,
    pub(crate) mode: Mode,
}

/// Whether a controller is to run.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Mode {
    Run,
    /// For this reason not.
    Pause(String),
    /// Never again.
    Stop,
}

/// Keeps a controller running until it is stopped.
pub(crate) struct Supervisor {
    pub(crate) core: Arc<Core>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) leases: Arc<dyn Leases>,
    pub(crate) wanted: watch::Receiver<Wanted>,
    /// The newest wish that nothing older runs beside any more.
    pub(crate) applied: watch::Sender<u64>,
}

/// Why a run is to end, or ended.
enum Ended {
    ByItself(String),
    LeaseLost,
    WishChanged,
}

impl Supervisor {
    /// Until the wish is to stop, or nobody is left to wish.
    pub(crate) async fn supervise(mut self) {
        let mut restarts = Restarts::default();
        let mut known: Option<Arc<Cache>> = None;
        let mut managed: Option<Slot> = None;
        let mut pause: Option<(Instant, String)> = None;
        let mut revision = None;
        let mut leased: Option<(Placement, Lease)> = None;
        // Until the wish is to stop, or nobody is left to wish.
        while self.wanted.has_changed().is_ok() {
            let wanted = self.wanted.borrow_and_update().clone();
            if revision.replace(wanted.revision) != Some(wanted.revision) {
                // Whoever changed something wants to see what comes of it now.
                restarts.reset();
                pause = None;
            }
            let slot = Slot::from(wanted.definition.managed());
            if managed.replace(slot.clone()).is_some_and(|before| before != slot) {
                self.core.forget();
                known = None;
            }
            match &wanted.mode {
                Mode::Stop => break,
                Mode::Pause(reason) => {
                    leased = None;
                    self.core.board.set(State::Paused { reason: reason.clone() });
                    self.applied.send_replace(wanted.revision);
                    // Whether there will be another wish is looked at above.
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
            self.core.board.set(State::WaitingForLease);
            self.applied.send_replace(wanted.revision);
            tokio::select! {
                biased;
                () = lease.until(true) => {}
                _ = self.wanted.changed() => continue,
            }
            if let Some((until, error)) = pause.take() {
                self.core.board.set(State::BackingOff { until, error });
                tokio::select! {
                    () = tokio::time::sleep_until(until) => {}
                    () = lease.until(false) => {
                        restarts.reset();
                        continue;
                    }
                    _ = self.wanted.changed() => continue,
                }
            }
            let begun = Instant::now();
            match Self::run(&self.core, &self.source, &mut self.wanted, &wanted.definition, lease, &mut known).await {
                Ended::ByItself(error) => {
                    let wait = restarts.after(begun.elapsed());
                    tracing::warn!(
                        controller = wanted.definition.name(),
                        ?wait,
                        "the controller starts again: {error}"
                    );
                    self.core.board.broke(error.clone());
                    pause = (wait > Duration::ZERO).then(|| (Instant::now() + wait, error));
                }
                Ended::LeaseLost => {
                    // Another server goes on; what is known here is worth nothing by the time the lease returns.
                    restarts.reset();
                    known = None;
                    self.core.forget();
                }
                Ended::WishChanged => {}
            }
        }
        self.core.forget();
        self.core.board.set(State::Stopped);
        self.applied.send_replace(u64::MAX);
    }

    /// One run, to its very end.
    async fn run(
        core: &Arc<Core>,
        source: &Arc<dyn Source>,
        wishes: &mut watch::Receiver<Wanted>,
        definition: &Arc<Definition>,
        lease: &mut Lease,
        known: &mut Option<Arc<Cache>>,
    ) -> Ended {
        let ending = Latch::new();
        let running = run(core, definition, source, known, &ending);
        tokio::pin!(running);
        let ended = tokio::select! {
            biased;
            result = &mut running => {
                return Ended::ByItself(result.err().map_or_else(|| "the run ended".to_owned(), |e| e.to_string()));
            }
            () = lease.until(false) => Ended::LeaseLost,
            _ = wishes.changed() => Ended::WishChanged,
        };
        ending.fire();
        // Its outcome counts for nothing any more.
        let _ = running.await;
        ended
    }
}
