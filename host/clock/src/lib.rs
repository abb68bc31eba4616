//! The time of a run: dates that never go back, and the time for which the process ran.
//!
//! # Contract
//! - [`date`] is the machine's date while nothing sets the machine's clock back. After that it continues from the
//!   latest date at the pace of the monotonic clock, until the machine's clock has caught up or the process ends. So a
//!   date that was stored in this run is never in the future, and its age is right.
//! - [`ran`] is the time for which the process ran. It leaves out stops of the process and sleeps of the machine of 2
//!   seconds or more, and no setting of the clock changes it. If [`date`] moved further than [`ran`], the process could
//!   receive no report, such as a heartbeat, for the difference.
//!
//! An interval within a run is measured by [`Instant`], and needs neither.
//!
//! # Cost
//! Two reads of the system's clocks and a lock. [`ran`] starts a thread with its first call, which wakes four times a
//! second.

use std::{
    sync::OnceLock,
    thread,
    time::{Duration, Instant, SystemTime},
};

use parking_lot::Mutex;
use prost_types::Timestamp;

/// Interval at which the thread notes that the process runs.
const TICK_INTERVAL: Duration = Duration::from_millis(250);

/// Time without a tick after which the process counts as stopped for that time. A busy machine delays ticks for less.
const STOPPED_AFTER: Duration = Duration::from_secs(2);

/// The current date, which never goes back within the run.
#[must_use]
pub fn date() -> SystemTime {
    static DATES: Mutex<Dates> = Mutex::new(Dates { latest: None });
    DATES.lock().date(SystemTime::now(), Instant::now())
}

/// The current date in protobuf's form.
#[must_use]
pub fn timestamp() -> Timestamp {
    date().into()
}

/// The current date in protobuf's form, to the millisecond.
#[must_use]
pub fn timestamp_millis() -> Timestamp {
    let Timestamp { seconds, nanos } = timestamp();
    Timestamp { seconds, nanos: nanos - nanos % 1_000_000 }
}

/// The time for which the process ran, counted from the first call.
#[must_use]
pub fn ran() -> Duration {
    static RUN: OnceLock<Mutex<Run>> = OnceLock::new();
    let run = RUN.get_or_init(|| {
        // If the system refuses the thread, each call counts as a tick: stops show as long as calls come often.
        let _ = thread::Builder::new().name("mortise-clock".into()).spawn(|| {
            loop {
                #[allow(clippy::disallowed_methods, reason = "a thread of its own, which may sleep")]
                thread::sleep(TICK_INTERVAL);
                let _ = ran();
            }
        });
        Mutex::new(Run { ran: Duration::ZERO, last: Instant::now() })
    });
    run.lock().tick(Instant::now())
}

/// The dates of a run.
struct Dates {
    /// The latest date, and its instant.
    latest: Option<(SystemTime, Instant)>,
}

impl Dates {
    fn date(&mut self, machine: SystemTime, now: Instant) -> SystemTime {
        let kept = self.latest.and_then(|(date, instant)| date.checked_add(now.saturating_duration_since(instant)));
        let date = kept.map_or(machine, |kept| kept.max(machine));
        self.latest = Some((date, now));
        date
    }
}

/// The time for which the process ran, at its last tick.
struct Run {
    ran: Duration,
    last: Instant,
}

impl Run {
    fn tick(&mut self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.last);
        self.ran += if since < STOPPED_AFTER { since } else { TICK_INTERVAL };
        self.last = self.last.max(now);
        self.ran
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn dates_follow_the_machine_and_never_go_back() {
        let (begun, noon) = (Instant::now(), SystemTime::UNIX_EPOCH + 500_000 * HOUR);
        let mut dates = Dates { latest: None };
        assert_eq!(dates.date(noon, begun), noon);
        assert_eq!(dates.date(noon + SECOND, begun + SECOND), noon + SECOND);
        // Set back by an hour: the date goes on as if nothing had happened.
        assert_eq!(dates.date(noon - HOUR, begun + 2 * SECOND), noon + 2 * SECOND);
        assert_eq!(dates.date(noon - HOUR + 9 * SECOND, begun + 11 * SECOND), noon + 11 * SECOND);
        // Set right again, and ahead.
        assert_eq!(dates.date(noon + 12 * SECOND, begun + 12 * SECOND), noon + 12 * SECOND);
        assert_eq!(dates.date(noon + HOUR, begun + 13 * SECOND), noon + HOUR);
        assert_eq!(dates.date(noon, begun + 14 * SECOND), noon + HOUR + SECOND);
    }

    #[test]
    fn a_date_before_1970_is_a_valid_timestamp() {
        let mut dates = Dates { latest: None };
        let early = SystemTime::UNIX_EPOCH - Duration::from_millis(1_500);
        let timestamp = Timestamp::from(dates.date(early, Instant::now()));
        assert_eq!((timestamp.seconds, timestamp.nanos), (-2, 500_000_000));
    }

    #[test]
    fn a_stop_is_no_time_that_the_process_ran() {
        let begun = Instant::now();
        let mut run = Run { ran: Duration::ZERO, last: begun };
        for n in 1..=8 {
            assert_eq!(run.tick(begun + n * TICK_INTERVAL), n * TICK_INTERVAL);
        }
        assert_eq!(run.tick(begun + 2 * SECOND + HOUR), 2 * SECOND + TICK_INTERVAL, "stopped for an hour");
        assert_eq!(run.tick(begun + 3 * SECOND + HOUR), 3 * SECOND + TICK_INTERVAL);
        assert_eq!(run.tick(begun), 3 * SECOND + TICK_INTERVAL, "ticks of two threads may come out of order");
        assert_eq!(run.tick(begun + 4 * SECOND + HOUR), 4 * SECOND + TICK_INTERVAL, "and nothing is counted twice");
    }

    #[test]
    fn both_clocks_move() {
        let (date_before, ran_before) = (date(), ran());
        while date() <= date_before || ran() <= ran_before {}
        assert_eq!(timestamp_millis().nanos % 1_000_000, 0);
    }
}
