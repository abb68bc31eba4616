//! Times of runs: the multiples of a number of seconds since 1970.

use crate::proto::jobs::v1::Schedule;

/// Longest time from one run to the next, in seconds.
const LONGEST: u64 = 31 * 24 * 3600;

/// Time from one run to the next, in seconds: 1 to 31 days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Every(u64);

/// Reason that a number of seconds is not a time from one run to the next.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("every must be 1s to {LONGEST}s, in whole seconds; got {0}")]
pub(crate) struct EveryError(String);

impl Every {
    /// Takes the time from a schedule.
    pub(crate) fn of(schedule: &Schedule) -> Result<Self, EveryError> {
        match &schedule.every {
            Some(every) if every.nanos == 0 => Self::seconds(every.seconds),
            Some(every) => Err(EveryError(every.to_string())),
            None => Err(EveryError("no value".to_owned())),
        }
    }

    /// Makes a time of that many seconds.
    pub(crate) fn seconds(seconds: i64) -> Result<Self, EveryError> {
        let fits = u64::try_from(seconds).ok().filter(|seconds| (1..=LONGEST).contains(seconds));
        fits.map(Self).ok_or_else(|| EveryError(format!("{seconds}s")))
    }

    /// Returns the last time that is not after `now`, in seconds since 1970.
    pub(crate) const fn last(self, now: u64) -> u64 {
        // The number is at least 1.
        now.saturating_sub(now.wrapping_rem(self.0))
    }

    /// Returns the first time after `now`.
    pub(crate) const fn next(self, now: u64) -> u64 {
        self.last(now).saturating_add(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_multiples() {
        let every = Every::seconds(60).unwrap();
        assert_eq!((every.last(119), every.next(119)), (60, 120));
        assert_eq!((every.last(120), every.next(120)), (120, 180));
        assert_eq!(
            Every::seconds(0).unwrap_err().to_string(),
            "every must be 1s to 2678400s, in whole seconds; got 0s"
        );
    }
}
