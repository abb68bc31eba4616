//! Health of a plugin's hooks, and admission of their calls: one `Breaker` for each hook.
//!
//! Faults of the plugin count; a busy host, a call abandoned by its caller, and failures of the host do not. Each
//! loaded component has a health of its own, so a new file starts healthy.
//!
//! Cost: a healthy hook pays one relaxed load before the call, and a load and an addition after it. A fault, and any
//! call of a hook that is not healthy, takes the hook's lock for a moment, and the call's input is hashed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    error::HookFault,
    health::breaker::{Admission, Admitted, Breaker, CallerId, FaultText, HealthState, Quarantine},
    hook::{Hook, PerHook},
};

/// Longest text of a fault that is kept, bytes.
const MAX_TEXT: usize = 512;

/// Clock: the time since some fixed moment.
pub(crate) type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// Callback for each change of a hook's state: the hook, its previous state, and its health with the last fault.
pub(crate) type Listener = Box<dyn Fn(Hook, HealthState, &HookHealth) + Send + Sync>;

/// The health of one loaded plugin.
pub struct Health {
    rules: Arc<Quarantine>,
    clock: Clock,
    cells: PerHook<HookCell>,
    used: Vec<Hook>,
    changes: watch::Sender<u64>,
    listener: Listener,
}

#[derive(Default)]
struct HookCell {
    /// State of the breaker, for reading without its lock.
    state: AtomicU8,
    /// Calls that ended well.
    good: AtomicU64,
    breaker: Mutex<Breaker>,
}

/// A plugin's health at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthReport {
    /// The worst state of its hooks.
    pub state: HealthState,
    /// Hooks that one of its types uses.
    pub hooks: Vec<HookHealth>,
}

/// A hook's health at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookHealth {
    /// Name of the hook, such as `validate`.
    pub hook: &'static str,
    /// State of the hook.
    pub state: HealthState,
    /// Faults since the plugin was loaded or its health was reset.
    pub faults: u64,
    /// Text of the last fault, for operators; empty if there was none.
    pub last_fault: String,
    /// Time until a quarantined hook is tried again; `None` otherwise.
    pub retry_in: Option<Duration>,
    /// Whether a quarantined hook has its trial now, or with its next call.
    pub on_trial: bool,
}

impl Health {
    /// Makes a health with all hooks healthy. `used` are the hooks to report.
    pub(crate) fn new(rules: Arc<Quarantine>, used: Vec<Hook>, listener: Listener) -> Self {
        let begun = Instant::now();
        Self::with_clock(rules, used, listener, Box::new(move || begun.elapsed()))
    }

    fn with_clock(rules: Arc<Quarantine>, used: Vec<Hook>, listener: Listener, clock: Clock) -> Self {
        Self {
            rules,
            clock,
            cells: PerHook::new(|_| HookCell::default()),
            used,
            changes: watch::Sender::new(0),
            listener,
        }
    }

    /// Health of each hook now.
    #[must_use]
    pub fn report(&self) -> HealthReport {
        let now = (self.clock)();
        let hooks: Vec<_> = self.used.iter().map(|hook| self.describe(*hook, now)).collect();
        let state = hooks.iter().map(|hook| hook.state).max().unwrap_or(HealthState::Healthy);
        HealthReport { state, hooks }
    }

    /// The first and the longest wait of a quarantine.
    #[must_use]
    pub fn backoff_range(&self) -> (Duration, Duration) {
        (Duration::from_millis(self.rules.backoff_ms), Duration::from_millis(self.rules.max_backoff_ms))
    }

    /// Counter that changes with every change of a hook's state, and with each failed trial.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Makes every hook healthy, regardless of its past.
    pub fn reset(&self) {
        for hook in Hook::ALL {
            self.update_breaker(hook, |breaker, _| breaker.reset());
        }
    }

    /// Whether calls of this hook are refused, except for trials.
    pub(crate) fn is_quarantined(&self, hook: Hook) -> bool {
        self.cell(hook).state.load(Ordering::Relaxed) == HealthState::Quarantined as u8
    }

    /// Admits a call of a caller. `input` computes the input's hash, only if the hook is not healthy.
    ///
    /// # Errors
    /// [`HookFault::Quarantined`].
    pub(crate) fn admit(
        &self,
        hook: Hook,
        caller: CallerId,
        input: impl FnOnce() -> u64,
    ) -> Result<CallPermit<'_>, HookFault> {
        let pass = |trial, input| CallPermit { health: self, hook, call: Admitted { trial, input, caller } };
        if self.cell(hook).state.load(Ordering::Relaxed) == HealthState::Healthy as u8 {
            return Ok(pass(None, None));
        }
        let input = input();
        if !self.is_quarantined(hook) {
            return Ok(pass(None, Some(input)));
        }
        let admitted = self.update_breaker(hook, |breaker, now| match breaker.admit(&self.rules, now, caller, input) {
            Admission::Go => Ok(None),
            Admission::Trial(number) => Ok(Some(number)),
            Admission::Refused(retry_in) => {
                Err(HookFault::Quarantined { retry_in, last: breaker.last_fault().for_callers.clone() })
            }
        });
        admitted.map(|trial| pass(trial, Some(input)))
    }

    /// Counts a fault found in an answer after the call had ended and had counted as one that ended well.
    pub(crate) fn count_late_fault(&self, hook: Hook, caller: CallerId, what: &HookFault) {
        let less = |good: u64| Some(good.saturating_sub(1));
        // Always stores: the closure has no `None`.
        let _ = self.cell(hook).good.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        self.failed(hook, Admitted { caller, ..Admitted::default() }, what);
    }

    fn failed(&self, hook: Hook, call: Admitted, what: &HookFault) {
        let text = FaultText { for_callers: cut(what.to_string()), for_operators: cut(what.for_operators()) };
        let good = self.cell(hook).good.load(Ordering::Relaxed);
        self.update_breaker(hook, |breaker, now| breaker.failed(&self.rules, now, call, good, text));
    }

    /// Runs `act` on a hook's breaker, and reports a change of its state, or a failed trial.
    fn update_breaker<R>(&self, hook: Hook, act: impl FnOnce(&mut Breaker, Duration) -> R) -> R {
        let cell = self.cell(hook);
        let mut breaker = cell.breaker.lock();
        let (before, bouts) = (breaker.state(), breaker.quarantine_count());
        let now = (self.clock)();
        let done = act(&mut breaker, now);
        let after = breaker.state();
        if before != after || bouts != breaker.quarantine_count() {
            cell.state.store(after as u8, Ordering::Relaxed);
            let described_state = described(hook, &breaker, &self.rules, now);
            // Under the lock, so that listeners get changes in order.
            (self.listener)(hook, before, &described_state);
            self.changes.send_modify(|count| *count = count.wrapping_add(1));
        }
        done
    }

    fn describe(&self, hook: Hook, now: Duration) -> HookHealth {
        described(hook, &self.cell(hook).breaker.lock(), &self.rules, now)
    }

    fn cell(&self, hook: Hook) -> &HookCell {
        self.cells.get(hook)
    }
}

/// Returns the beginning of a text.
fn cut(mut text: String) -> String {
    let end = text.floor_char_boundary(MAX_TEXT);
    text.truncate(end);
    text
}

fn described(hook: Hook, breaker: &Breaker, rules: &Quarantine, now: Duration) -> HookHealth {
    HookHealth {
        hook: hook.name(),
        state: breaker.state(),
        faults: breaker.faults(),
        last_fault: breaker.last_fault().for_operators.clone(),
        retry_in: breaker.retry_in(rules, now),
        on_trial: breaker.is_on_trial(now),
    }
}

/// Permission to call a hook once. Dropped without an outcome (the caller went away), it does not count, and its trial
/// is free for the next caller.
pub(crate) struct CallPermit<'a> {
    health: &'a Health,
    hook: Hook,
    call: Admitted,
}

impl CallPermit<'_> {
    /// The call ended well.
    pub(crate) fn succeeded(mut self) {
        let cell = self.health.cell(self.hook);
        let good = cell.good.fetch_add(1, Ordering::Relaxed) + 1;
        if cell.state.load(Ordering::Relaxed) != HealthState::Healthy as u8 {
            let call = std::mem::take(&mut self.call);
            self.health
                .update_breaker(self.hook, |breaker, now| breaker.succeeded(&self.health.rules, now, call, good));
        }
    }

    /// The call ended with a fault of the plugin.
    pub(crate) fn failed(mut self, what: &HookFault) {
        let call = std::mem::take(&mut self.call);
        self.health.failed(self.hook, call, what);
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.call.trial {
            self.health.update_breaker(self.hook, |breaker, _| breaker.released(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Reported changes: the hook, and its new state.
    type Heard = Arc<Mutex<Vec<(Hook, HealthState)>>>;

    /// A health, the seconds on its clock, and its reports.
    fn health() -> (Health, Arc<AtomicU64>, Heard) {
        let seconds = Arc::new(AtomicU64::new(0));
        let heard = Heard::default();
        let (clock, log) = (seconds.clone(), heard.clone());
        let health = Health::with_clock(
            Arc::new(Quarantine::default()),
            vec![Hook::Mutate, Hook::Validate],
            Box::new(move |hook, _, now| log.lock().push((hook, now.state))),
            Box::new(move || Duration::from_secs(clock.load(Ordering::Relaxed))),
        );
        (health, seconds, heard)
    }

    fn trap() -> HookFault {
        HookFault::Trap { trap: "a test asked for this panic".into(), logged: "panicked at lib.rs".into() }
    }

    fn quarantine(health: &Health, hook: Hook) {
        (0..10).for_each(|n| health.admit(hook, CallerId::HOST, || n).unwrap().failed(&trap()));
        assert!(health.is_quarantined(hook));
    }

    #[test]
    fn hooks_are_quarantined_one_by_one_and_it_is_told() {
        let (health, seconds, heard) = health();
        let changes = health.subscribe();
        quarantine(&health, Hook::Validate);
        assert!(health.admit(Hook::Mutate, CallerId::HOST, || 0).is_ok());
        let refused = health.admit(Hook::Validate, CallerId::HOST, || 0).err().unwrap();
        let HookFault::Quarantined { retry_in, last } = refused else { panic!("{refused:?}") };
        assert_eq!((retry_in, last.as_str()), (Duration::from_secs(1), "trapped: a test asked for this panic"));
        let report = health.report();
        assert_eq!(report.state, HealthState::Quarantined);
        assert_eq!(report.hooks.len(), 2);
        assert_eq!((report.hooks[0].hook, report.hooks[0].state), ("mutate", HealthState::Healthy));
        assert_eq!((report.hooks[1].hook, report.hooks[1].faults), ("validate", 10));
        let text = "trapped: a test asked for this panic; it logged: panicked at lib.rs";
        assert_eq!(report.hooks[1].last_fault, text, "operators see more than callers");
        assert_eq!(report.hooks[1].retry_in, Some(Duration::from_secs(1)));

        seconds.store(1, Ordering::Relaxed);
        health.admit(Hook::Validate, CallerId::HOST, || 0).unwrap().succeeded();
        assert_eq!(*changes.borrow(), 3);
        let states: Vec<_> = heard.lock().iter().map(|(hook, state)| (hook.name(), *state)).collect();
        let expected = [HealthState::Probation, HealthState::Quarantined, HealthState::Probation];
        assert_eq!(states, expected.map(|state| ("validate", state)));
    }

    #[test]
    fn a_caller_who_goes_away_releases_the_trial() {
        let (health, seconds, _) = health();
        quarantine(&health, Hook::Mutate);
        seconds.store(1, Ordering::Relaxed);
        let trial = health.admit(Hook::Mutate, CallerId::HOST, || 0).unwrap();
        assert!(health.admit(Hook::Mutate, CallerId::HOST, || 0).is_err());
        drop(trial);
        assert!(health.is_quarantined(Hook::Mutate));
        health.admit(Hook::Mutate, CallerId::HOST, || 0).unwrap().succeeded();
        assert!(!health.is_quarantined(Hook::Mutate));
    }

    #[test]
    fn reset_lifts_at_once() {
        let (health, ..) = health();
        quarantine(&health, Hook::Mutate);
        quarantine(&health, Hook::Validate);
        health.reset();
        assert_eq!(health.report().state, HealthState::Healthy);
        assert!(
            health.admit(Hook::Mutate, CallerId::HOST, || 0).is_ok()
                && health.admit(Hook::Validate, CallerId::HOST, || 0).is_ok()
        );
    }

    /// The controllers pause while their hook is quarantined, so they must learn of this.
    #[test]
    fn a_trial_that_fails_is_told() {
        let (health, seconds, heard) = health();
        quarantine(&health, Hook::Mutate);
        let changes = health.subscribe();
        let before = *changes.borrow();
        seconds.store(1, Ordering::Relaxed);
        assert!(health.report().hooks[0].on_trial);
        health.admit(Hook::Mutate, CallerId::HOST, || 99).unwrap().failed(&trap());
        assert_eq!(*changes.borrow(), before + 1);
        assert_eq!(heard.lock().last(), Some(&(Hook::Mutate, HealthState::Quarantined)));
        let now = &health.report().hooks[0];
        assert_eq!((now.retry_in, now.on_trial), (Some(Duration::from_secs(2)), false));
    }

    #[test]
    fn a_bad_answer_after_the_trial_takes_it_back() {
        let (health, seconds, _) = health();
        quarantine(&health, Hook::Mutate);
        seconds.store(1, Ordering::Relaxed);
        health.admit(Hook::Mutate, CallerId::HOST, || 0).unwrap().succeeded();
        health.count_late_fault(Hook::Mutate, CallerId::HOST, &HookFault::Answer("nonsense".into()));
        assert!(health.is_quarantined(Hook::Mutate));
        assert_eq!(health.report().hooks[0].retry_in, Some(Duration::from_secs(2)));
    }
}
