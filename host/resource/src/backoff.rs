//! Waits between attempts: each failure in a row doubles the wait, up to a bound.
//!
//! Loops whose waits grow with their failures take the waits from here. [`Backoff`] is the rule and keeps no state, so
//! that a queue can apply one rule to the counts of many keys; [`Waits`] counts for a single loop. No library is used:
//! docs/decisions/0022-waits-after-failures-are-computed-here.md.

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    time::Duration,
};

/// The shortest base. A shorter one would turn a loop of failures into a busy loop.
const SHORTEST_BASE: Duration = Duration::from_millis(1);

/// A rule for waits: `base`, doubled by each failure in a row, at most `max`, shortened by chance if it has jitter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    jitter: f64,
}

impl Backoff {
    /// Makes a rule without jitter. A base below 1 ms counts as 1 ms, a max below the base as the base.
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        let base = base.max(SHORTEST_BASE);
        Self { base, max: max.max(base), jitter: 0.0 }
    }

    /// Shortens each wait by up to this share of it, from 0 to 1, so that many loops with one cause do not return at
    /// the same moment.
    #[must_use]
    pub fn with_jitter(self, share: f64) -> Self {
        Self { jitter: share.clamp(0.0, 1.0), ..self }
    }

    /// The wait after this number of earlier failures in a row.
    #[must_use]
    pub fn delay(self, failures: u32) -> Duration {
        let whole = self.base.saturating_mul(2_u32.saturating_pow(failures.min(31))).min(self.max);
        if self.jitter == 0.0 { whole } else { whole.mul_f64(1.0 - self.jitter * chance()) }
    }

    /// The first wait, before jitter.
    #[must_use]
    pub fn base(self) -> Duration {
        self.base
    }

    /// The longest wait.
    #[must_use]
    pub fn max(self) -> Duration {
        self.max
    }
}

/// The waits of one loop.
#[derive(Debug, Clone)]
pub struct Waits {
    backoff: Backoff,
    failures: u32,
}

impl Waits {
    /// Begins with the first wait of the rule.
    #[must_use]
    pub fn new(backoff: Backoff) -> Self {
        Self { backoff, failures: 0 }
    }

    /// Returns the wait after one more failure.
    pub fn next_wait(&mut self) -> Duration {
        let wait = self.backoff.delay(self.failures);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// Begins with the first wait again, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A number from 0 to 1, without 1. It comes from the random seed of the standard library's hashers: jitter needs no
/// more, and this crate has no source of random numbers, since plugins compile it.
#[expect(clippy::cast_precision_loss, reason = "53 bits are what a float holds")]
fn chance() -> f64 {
    (RandomState::new().build_hasher().finish() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_doubles_the_wait_up_to_the_max() {
        let rule = Backoff::new(Duration::from_millis(5), Duration::from_secs(1000));
        assert_eq!([0, 1, 2, 3, 4].map(|n| rule.delay(n).as_millis()), [5, 10, 20, 40, 80]);
        assert_eq!(rule.delay(17), Duration::from_millis(655_360));
        assert_eq!(rule.delay(18), Duration::from_secs(1000));
        assert_eq!(rule.delay(u32::MAX), Duration::from_secs(1000));
    }

    #[test]
    fn base_and_max_are_kept_within_reason() {
        let rule = Backoff::new(Duration::from_millis(1), Duration::from_millis(9));
        assert_eq!([0, 1, 2, 3, 4].map(|n| rule.delay(n).as_millis()), [1, 2, 4, 8, 9]);
        assert_eq!(Backoff::new(Duration::ZERO, Duration::ZERO).delay(9), SHORTEST_BASE);
    }

    #[test]
    fn jitter_shortens_each_wait_by_its_share_at_most_and_differs() {
        let rule = Backoff::new(Duration::from_secs(1), Duration::from_secs(1)).with_jitter(0.25);
        let waits: Vec<f64> = (0..1000).map(|_| rule.delay(0).as_secs_f64()).collect();
        assert!(waits.iter().all(|wait| (0.75..=1.0).contains(wait)));
        let mean = waits.iter().sum::<f64>() / 1000.0;
        assert!((0.85..=0.90).contains(&mean), "{mean}");
    }

    #[test]
    fn a_success_begins_with_the_first_wait_again() {
        let mut waits = Waits::new(Backoff::new(Duration::from_millis(20), Duration::from_millis(50)));
        let mut ms = || waits.next_wait().as_millis();
        assert_eq!([ms(), ms(), ms(), ms()], [20, 40, 50, 50]);
        waits.reset();
        assert_eq!(waits.next_wait(), Duration::from_millis(20));
    }
}
