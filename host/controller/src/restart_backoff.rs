//! Waits between the runs of a controller.

use std::time::Duration;

use mortise_resource::backoff::{Backoff, Waits};

use crate::durations::{MAX_RESTART_WAIT, MIN_RESTART_WAIT, MIN_STABLE_RUN};

/// The waits of a controller with runs that keep ending, as in Consul: none after a run that lasted, else 500 ms, 1, 2,
/// 4 … 60 s, each longer by up to a quarter, so that a hundred controllers with the same fault do not return at the
/// same time.
#[derive(Debug)]
pub(crate) struct RestartBackoff(Waits);

impl Default for RestartBackoff {
    fn default() -> Self {
        Self(Waits::new(Backoff::new(MIN_RESTART_WAIT, MAX_RESTART_WAIT).with_jitter(0.2)))
    }
}

impl RestartBackoff {
    /// The wait after a run that lasted this long.
    pub(crate) fn after(&mut self, lasted: Duration) -> Duration {
        if lasted > MIN_STABLE_RUN {
            self.reset();
            return Duration::ZERO;
        }
        self.0.next_wait()
    }

    /// Starts over with the shortest wait.
    pub(crate) fn reset(&mut self) {
        self.0.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restarts_wait_from_half_a_second_to_a_minute_and_a_quarter_more() {
        let mut restarts = RestartBackoff::default();
        for wanted in [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0] {
            let wait = restarts.after(Duration::from_secs(2)).as_secs_f64();
            assert!((wanted..=wanted * 1.25).contains(&wait), "{wait} for {wanted}");
        }
        assert_eq!(restarts.after(Duration::from_millis(2001)), Duration::ZERO);
        assert!(restarts.after(Duration::ZERO) <= Duration::from_millis(625), "a run that lasted resets the waits");
    }
}
