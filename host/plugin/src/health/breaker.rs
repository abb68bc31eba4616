//! Circuit breaker of one hook: a state machine without a clock of its own that admits or refuses calls.
//!
//! ```text
//! healthy ──faults in a window──▶ probation ──more of them──▶ quarantined ◀─────────────┐
//!    ▲                              ▲   │ a quiet window and a good call   │ time is up │ failure:
//!    └──────────────────────────────┼───┘                                  ▼            │ twice the wait
//!                                   └──────────── success ───────────── one trial ──────┘
//! ```
//!
//! Healthy and probation differ in what is shown and in how many faults are forgiven; calls go on in both. In
//! quarantine calls are refused until the wait is over; then the first caller's call is the trial, and others are
//! refused until its outcome is known. A hook that comes back is on probation, and its next quarantine waits twice as
//! long, until a quiet window has made it healthy again. If the caller of a trial goes away, the next caller gets the
//! trial.
//!
//! # Blame
//! A number of faults alone does not quarantine, or else one caller's input would close the hook for all. They must
//! also be a share (`share_percent`):
//! - of the calls, where faults count by input, so that one input that is sent repeatedly weighs as much as one call
//!   that ended well;
//! - of the callers, among those that had faults and those that were served since the hook left the healthy state: one
//!   caller may have as many inputs as it likes. A holder of a token is one caller; without tokens each connection is
//!   one.
//!
//! In quarantine, an input that is known to have set off a fault, and a caller whose trial failed, get the trial only
//! after twice the wait, and if no other call came: other calls have the better chance.
//!
//! # Limits
//! A breaker remembers at most [`MAX_FAULTS`] faults with their inputs and callers, [`MAX_SERVED`] callers that were
//! served, [`MAX_POISONED_INPUTS`] inputs and as many callers in quarantine, and the text of the last fault.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    time::Duration,
};

use mortise_resource::backoff::Backoff;

/// Most faults of a window.
const MAX_FAULTS: u32 = 10_000;

/// Most remembered inputs that set off a fault, and most remembered callers whose trials failed, in quarantine.
const MAX_POISONED_INPUTS: usize = 256;

/// Most remembered callers that were served.
const MAX_SERVED: usize = 256;

/// Longest wait that callers are asked for while a trial is running.
const MAX_TRIAL_WAIT: Duration = Duration::from_secs(1);

/// Rules of quarantine. `[quarantine]` in config.toml sets `faults`, `window_ms` and `bypass_mutate_types`; the others
/// are fixed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantine {
    /// Faults of one hook within the window that quarantine it, 1 to 10,000.
    pub faults: u32,
    /// Faults of one hook within the window that put it on probation; and those that return a hook to quarantine after
    /// it came back.
    pub probation_faults: u32,
    /// Least share of faults among the calls since the first of these faults for a quarantine, percent; faults of one
    /// input count once. Also the least share of callers with faults among all callers since then.
    pub share_percent: u32,
    /// The window, milliseconds; also the time without faults after which a hook leaves probation.
    pub window_ms: u64,
    /// The first wait, milliseconds; it doubles with each failed trial.
    pub backoff_ms: u64,
    /// The longest wait, milliseconds.
    pub max_backoff_ms: u64,
    /// Types, such as `demo.v2.Artist`, that are written without their `mutate` while that hook is quarantined.
    /// Validation and authorisation are never skipped.
    pub bypass_mutate_types: Vec<String>,
}

impl Default for Quarantine {
    fn default() -> Self {
        Self {
            faults: 10,
            probation_faults: 3,
            share_percent: 95,
            window_ms: 60_000,
            backoff_ms: 1_000,
            max_backoff_ms: 60_000,
            bypass_mutate_types: Vec::new(),
        }
    }
}

impl Quarantine {
    fn limit(&self) -> usize {
        self.faults.clamp(1, MAX_FAULTS) as usize
    }

    fn probation(&self) -> usize {
        (self.probation_faults.max(1) as usize).min(self.limit())
    }

    fn window(&self) -> Duration {
        Duration::from_millis(self.window_ms)
    }

    /// Wait after so many failed trials in a row.
    fn backoff(&self, failed_trials: u32) -> Duration {
        Backoff::new(Duration::from_millis(self.backoff_ms), Duration::from_millis(self.max_backoff_ms))
            .delay(failed_trials)
    }
}

/// Health of a hook, or of a plugin as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum HealthState {
    /// The hook works.
    Healthy = 0,
    /// The hook failed recently, or has just come back from quarantine. It is called.
    Probation = 1,
    /// The hook is not called, except for occasional trials.
    Quarantined = 2,
}

/// Decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The call may run.
    Go,
    /// The call is the trial of this number, and its outcome decides the quarantine.
    Trial(u64),
    /// The call is refused; retry after this time.
    Refused(Duration),
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Healthy,
    Probation {
        /// Whether the hook was in quarantine before.
        returned: bool,
        /// Whether only the trial has succeeded yet: one fault brings the quarantine back.
        unproven: bool,
        /// Time of the last fault, or of the return from quarantine.
        since: Duration,
    },
    Quarantined {
        until: Duration,
        trial: Option<u64>,
    },
}

/// Identity of a caller, which separates its faults from those of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CallerId(u64);

impl CallerId {
    /// The host itself, which also calls for controllers.
    pub const HOST: Self = Self(0);

    /// Identity of the caller with this number; each caller needs its own.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// An admitted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Admitted {
    /// The number of the trial, if the call is one.
    pub(crate) trial: Option<u64>,
    /// Hash of the hook's input; `None` for a call that began while the hook was healthy, when inputs are not hashed.
    pub(crate) input: Option<u64>,
    pub(crate) caller: CallerId,
}

/// A fault within the window.
#[derive(Debug)]
struct Fault {
    time: Duration,
    input: Option<u64>,
    caller: CallerId,
    /// Calls that had ended well by then.
    good: u64,
}

/// Faults within the window, oldest first.
#[derive(Debug, Default)]
struct Window {
    faults: VecDeque<Fault>,
    /// Number of these faults by known input.
    inputs: HashMap<u64, u32>,
    /// Number of these faults by caller.
    callers: HashMap<CallerId, u32>,
}

impl Window {
    fn push(&mut self, fault: Fault, window: Duration) {
        let now = fault.time;
        if let Some(input) = fault.input {
            *self.inputs.entry(input).or_default() += 1;
        }
        *self.callers.entry(fault.caller).or_default() += 1;
        self.faults.push_back(fault);
        let is_over = |oldest: &Fault| now.saturating_sub(oldest.time) > window;
        while self.faults.len() > MAX_FAULTS as usize || self.faults.front().is_some_and(is_over) {
            self.pop();
        }
    }

    fn pop(&mut self) {
        let Some(oldest) = self.faults.pop_front() else { return };
        if let Some(input) = oldest.input {
            count_down(&mut self.inputs, &input);
        }
        count_down(&mut self.callers, &oldest.caller);
    }

    /// Number of inputs that set off a fault; each fault of an unknown input counts as one.
    fn faulty_inputs(&self) -> u64 {
        let known: u64 = self.inputs.values().map(|count| u64::from(*count)).sum();
        self.inputs.len() as u64 + (self.faults.len() as u64).saturating_sub(known)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

fn count_down<K: Hash + Eq>(counts: &mut HashMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// State of one hook. Moments are times since any fixed one.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    phase: Phase,
    recent: Window,
    /// Time of the last return from quarantine, and the calls that had ended well before the trial.
    returned: Option<(Duration, u64)>,
    /// Inputs that set off faults before the quarantine, or were a failed trial; the oldest first.
    poisoned_inputs: VecDeque<u64>,
    /// Callers whose trials failed, the oldest first.
    deferred: VecDeque<CallerId>,
    /// Callers that were served outside of the healthy state, with the last time.
    served: HashMap<CallerId, Duration>,
    /// Number of quarantines; each failed trial counts as another.
    quarantine_count: u64,
    failed_trials: u32,
    trials: u64,
    faults: u64,
    last_fault: FaultText,
}

/// Text of a fault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FaultText {
    pub(crate) for_callers: String,
    pub(crate) for_operators: String,
}

impl Breaker {
    pub(crate) fn state(&self) -> HealthState {
        match self.phase {
            Phase::Healthy => HealthState::Healthy,
            Phase::Probation { .. } => HealthState::Probation,
            Phase::Quarantined { .. } => HealthState::Quarantined,
        }
    }

    /// Faults since the breaker was made or reset.
    pub(crate) fn faults(&self) -> u64 {
        self.faults
    }

    /// Quarantines since the breaker was made; a failed trial begins another one.
    pub(crate) fn quarantine_count(&self) -> u64 {
        self.quarantine_count
    }

    /// Whether a trial is running, or the next call is one.
    pub(crate) fn is_on_trial(&self, now: Duration) -> bool {
        matches!(self.phase, Phase::Quarantined { until, trial } if trial.is_some() || now >= until)
    }

    /// Text of the last fault; empty if there was none.
    pub(crate) fn last_fault(&self) -> &FaultText {
        &self.last_fault
    }

    /// Time for which calls are refused from now on; `None` if they are admitted.
    pub(crate) fn retry_in(&self, rules: &Quarantine, now: Duration) -> Option<Duration> {
        match self.phase {
            Phase::Healthy | Phase::Probation { .. } => None,
            Phase::Quarantined { trial: Some(_), .. } => Some(rules.backoff(self.failed_trials).min(MAX_TRIAL_WAIT)),
            Phase::Quarantined { until, trial: None } => Some(until.saturating_sub(now)),
        }
    }

    /// Decides whether a call with this input may begin.
    pub(crate) fn admit(&mut self, rules: &Quarantine, now: Duration, caller: CallerId, input: u64) -> Admission {
        let Phase::Quarantined { until, trial } = &mut self.phase else { return Admission::Go };
        if trial.is_none() && (self.poisoned_inputs.contains(&input) || self.deferred.contains(&caller)) {
            let wait = rules.backoff(self.failed_trials);
            let last = until.saturating_add(wait);
            if now < last {
                // No answer names more than one wait: another call may end it earlier.
                return Admission::Refused(last.saturating_sub(now).min(wait));
            }
        }
        if trial.is_none() && now >= *until {
            self.trials += 1;
            *trial = Some(self.trials);
            return Admission::Trial(self.trials);
        }
        Admission::Refused(self.retry_in(rules, now).unwrap_or_default())
    }

    /// Counts a call that ended well. `good` are the calls that ended well so far, this one included.
    pub(crate) fn succeeded(&mut self, rules: &Quarantine, now: Duration, call: Admitted, good: u64) {
        match &mut self.phase {
            Phase::Healthy => {}
            Phase::Probation { unproven, since, .. } => {
                *unproven = false;
                record_served(&mut self.served, call.caller, now);
                if now.saturating_sub(*since) >= rules.window() {
                    self.phase = Phase::Healthy;
                    self.recent.clear();
                    self.poisoned_inputs.clear();
                    self.deferred.clear();
                    self.served.clear();
                    self.returned = None;
                    self.failed_trials = 0;
                }
            }
            Phase::Quarantined { trial: Some(pending), .. } if call.trial == Some(*pending) => {
                record_served(&mut self.served, call.caller, now);
                self.phase = Phase::Probation { returned: true, unproven: true, since: now };
                self.returned = Some((now, good.saturating_sub(1)));
            }
            // The call began before the quarantine.
            Phase::Quarantined { .. } => {}
        }
    }

    /// Counts a call that ended with a fault of the plugin. `good` are the calls that ended well so far.
    pub(crate) fn failed(&mut self, rules: &Quarantine, now: Duration, call: Admitted, good: u64, what: FaultText) {
        let Admitted { trial, input, caller } = call;
        self.faults += 1;
        self.last_fault = what;
        if let Phase::Quarantined { trial: pending, .. } = self.phase {
            // A call that began before the quarantine brings no news.
            if pending.is_some() && pending == trial {
                self.poisoned_inputs.extend(input);
                // The host is the only caller of controllers, so it has no others to make room for.
                if caller != CallerId::HOST && !self.deferred.contains(&caller) {
                    self.deferred.push_back(caller);
                    self.deferred.drain(..self.deferred.len().saturating_sub(MAX_POISONED_INPUTS));
                }
                self.enter_quarantine(rules, now, self.failed_trials.saturating_add(1));
            }
            return;
        }
        self.recent.push(Fault { time: now, input, caller, good }, rules.window());
        let count = self.recent.faults.len();
        let (returned, forgiven) = match self.phase {
            Phase::Probation { unproven: true, .. } => (true, 1),
            Phase::Probation { returned: true, .. } => (true, rules.probation()),
            _ => (false, rules.limit()),
        };
        if count >= forgiven && self.exceeds_fault_share(rules, now, good) {
            let failed_trials = if returned { self.failed_trials.saturating_add(1) } else { 0 };
            self.enter_quarantine(rules, now, failed_trials);
        } else if returned || count >= rules.probation() {
            self.phase = Phase::Probation { returned, unproven: false, since: now };
        }
    }

    /// Whether the share of faults among the calls since the window's first fault, and the share of callers with
    /// faults, are so large that the hook itself is to blame.
    fn exceeds_fault_share(&self, rules: &Quarantine, now: Duration, good: u64) -> bool {
        let first = self.recent.faults.front().map_or(good, |fault| fault.good);
        // The fault that led to the last quarantine counts as well: it is the reason for the trial.
        let returned = self.returned.filter(|(time, _)| now.saturating_sub(*time) <= rules.window());
        let since = returned.map_or(first, |(_, good)| first.min(good));
        let (faulty, good) = (self.recent.faulty_inputs(), good.saturating_sub(since));
        let share = u64::from(rules.share_percent.clamp(1, 100));
        let is_share =
            |faulty: u64, good: u64| faulty.saturating_mul(100) >= faulty.saturating_add(good).saturating_mul(share);
        let is_served = |(caller, time): &(&CallerId, &Duration)| {
            now.saturating_sub(**time) <= rules.window() && !self.recent.callers.contains_key(caller)
        };
        let served = self.served.iter().filter(is_served).count();
        is_share(faulty, good) && is_share(self.recent.callers.len() as u64, served as u64)
    }

    /// Frees a trial without outcome: its caller went away, or the host had no room for it. The next call is the trial.
    pub(crate) fn released(&mut self, number: u64) {
        if let Phase::Quarantined { trial, .. } = &mut self.phase
            && *trial == Some(number)
        {
            *trial = None;
        }
    }

    /// Makes the hook healthy and forgets its past. Outcomes of running trials no longer count.
    pub(crate) fn reset(&mut self) {
        *self = Self { trials: self.trials, quarantine_count: self.quarantine_count, ..Self::default() };
    }

    fn enter_quarantine(&mut self, rules: &Quarantine, now: Duration, failed_trials: u32) {
        self.failed_trials = failed_trials;
        self.quarantine_count += 1;
        self.poisoned_inputs.extend(self.recent.inputs.keys());
        self.poisoned_inputs.drain(..self.poisoned_inputs.len().saturating_sub(MAX_POISONED_INPUTS));
        self.returned = None;
        self.recent.clear();
        self.phase = Phase::Quarantined { until: now + rules.backoff(failed_trials), trial: None };
    }
}

/// Records that a caller was served; drops the caller that was served longest ago if there are too many.
fn record_served(served: &mut HashMap<CallerId, Duration>, caller: CallerId, now: Duration) {
    if served.len() >= MAX_SERVED
        && !served.contains_key(&caller)
        && let Some(oldest) = served.iter().min_by_key(|(_, time)| **time).map(|(oldest, _)| *oldest)
    {
        served.remove(&oldest);
    }
    served.insert(caller, now);
}

#[cfg(test)]
mod tests;
