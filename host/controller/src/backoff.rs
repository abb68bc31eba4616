//! Waits after failures, of an item in a queue and of a whole run, computed from a count of failures:
//! docs/decisions/0022-waits-after-failures-are-computed-here.md.

use std::time::Duration;

/// The shortest wait; a shorter base would make a loop of failures a busy one.
const LEAST: Duration = Duration::from_millis(1);

/// The waits of one item: `base`, doubled by each failure in a row, at most `max`. No jitter, as in Consul: items fail
/// one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    max: Duration,
}

impl Backoff {
    /// Waits from `base` to `max`. A base under 1 ms counts as 1 ms, a max under the base as the base.
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        let base = base.max(LEAST);
        Self { base, max: max.max(base) }
    }

    /// The wait after `failures` earlier failures in a row; none for the first.
    #[must_use]
    pub fn delay(self, failures: u32) -> Duration {
        self.base.saturating_mul(2_u32.saturating_pow(failures.min(31))).min(self.max)
    }

    /// The first wait.
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

impl Default for Backoff {
    /// 5 ms to 1,000 s, as in Consul.
    fn default() -> Self {
        Self::new(Duration::from_millis(5), Duration::from_secs(1000))
    }
}

/// The waits of a controller whose runs keep ending, as in Consul: none after a run that lasted, else 500 ms, 1, 2, 4 …
/// 60 s, each longer by up to a quarter, so that a hundred controllers with one fault do not return as one.
#[derive(Debug, Default)]
pub(crate) struct RestartBackoff {
    short: u32,
}

impl RestartBackoff {
    /// A run that lasted longer than this did not crash at its start.
    const LASTED: Duration = Duration::from_secs(2);
    const FIRST: Duration = Duration::from_millis(500);
    const LONGEST: Duration = Duration::from_secs(60);

    /// The wait after a run that lasted this long.
    pub(crate) fn after(&mut self, lasted: Duration) -> Duration {
        if lasted > Self::LASTED {
            self.reset();
            return Duration::ZERO;
        }
        let wait = Backoff::new(Self::FIRST, Self::LONGEST).delay(self.short);
        self.short = self.short.saturating_add(1);
        wait.mul_f64(1.0 + fastrand::f64() / 4.0)
    }

    /// Forgets the short runs.
    pub(crate) fn reset(&mut self) {
        self.short = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_5_ms_to_1000_s() {
        let waits = Backoff::default();
        let ms: Vec<u128> = (0..5).map(|n| waits.delay(n).as_millis()).collect();
        assert_eq!(ms, [5, 10, 20, 40, 80]);
        assert_eq!(waits.delay(17), Duration::from_millis(655_360));
        assert_eq!(waits.delay(18), Duration::from_secs(1000));
        assert_eq!(waits.delay(u32::MAX), Duration::from_secs(1000));
    }

    #[test]
    fn base_and_max_are_settings_within_reason() {
        let waits = Backoff::new(Duration::from_millis(1), Duration::from_millis(9));
        assert_eq!([0, 1, 2, 3, 4].map(|n| waits.delay(n).as_millis()), [1, 2, 4, 8, 9]);
        assert_eq!(Backoff::new(Duration::ZERO, Duration::ZERO).delay(9), LEAST);
    }

    #[test]
    fn restarts_wait_from_half_a_second_to_a_minute_and_a_quarter_more() {
        let mut restarts = RestartBackoff::default();
        for wanted in [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0] {
            let wait = restarts.after(Duration::from_secs(2)).as_secs_f64();
            assert!((wanted..=wanted * 1.25).contains(&wait), "{wait} for {wanted}");
        }
        assert_eq!(restarts.after(Duration::from_millis(2001)), Duration::ZERO);
        assert!(
            restarts.after(Duration::ZERO) <= Duration::from_millis(625),
            "a run that lasted forgets the short ones"
        );
    }
}
