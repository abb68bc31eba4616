//! Times of scheduled backups: `every 6h`, or five fields of cron in UTC.
//!
//! # Contract
//! A [`Timetable`] tells when the next run is due, by the last one. Runs that were missed are made up for by one. A last
//! run in the future, as after the clock was set back over a restart, counts as of now. So a clock that jumps causes at
//! most one run for each jump, and the next one is never further away than by the schedule.

use std::str::FromStr;

use cronexpr::Crontab;
use jiff::{SignedDuration, Timestamp};

/// Shortest interval of `every`, and longest.
const MIN_INTERVAL: SignedDuration = SignedDuration::from_mins(1);
const MAX_INTERVAL: SignedDuration = SignedDuration::from_hours(24 * 366);

/// Fields of cron: minute, hour, day of the month, month, day of the week.
const CRON_FIELDS: usize = 5;

/// Times of runs.
#[derive(Debug, Clone)]
pub enum Schedule {
    /// A time after the last run.
    Every(SignedDuration),
    /// Points in time.
    Cron(Box<Crontab>),
}

/// A text that is not a schedule.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// The text has neither form.
    #[error("write \"every 6h\", with m, h or d, or the five fields of cron in UTC, as in \"0 3 * * *\"")]
    Form,
    /// The interval is too short or too long.
    #[error("an interval is 1m to 366d")]
    Interval,
    /// The fields of cron are wrong.
    #[error(
        "its fields are wrong; write minute, hour, day of the month, month and day of the week, as in \"0 3 * * *\""
    )]
    Cron(#[source] Box<cronexpr::Error>),
    /// The fields name a date that never comes, such as 31 April.
    #[error("it names a time that never comes; correct the day of the month or the month")]
    Never,
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let text = text.trim();
        if let Some(interval) = text.strip_prefix("every ") {
            return every(interval.trim()).map(Self::Every);
        }
        if text.split_whitespace().count() != CRON_FIELDS {
            return Err(ScheduleError::Form);
        }
        let crontab = cronexpr::parse_crontab(&format!("{text} UTC"));
        let schedule = Self::Cron(Box::new(crontab.map_err(|fault| ScheduleError::Cron(Box::new(fault)))?));
        schedule.next_after(Timestamp::UNIX_EPOCH).map(|_| schedule).ok_or(ScheduleError::Never)
    }
}

/// Reads a number with its unit.
fn every(text: &str) -> Result<SignedDuration, ScheduleError> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or(ScheduleError::Form)?;
    let (number, unit) = text.split_at(digits);
    let minutes = match unit.trim() {
        "m" => 1,
        "h" => 60,
        "d" => 24 * 60,
        _ => return Err(ScheduleError::Form),
    };
    if number.is_empty() {
        return Err(ScheduleError::Form);
    }
    let minutes = number.parse::<i64>().ok().and_then(|number| number.checked_mul(minutes));
    let seconds = minutes.and_then(|minutes| minutes.checked_mul(60)).ok_or(ScheduleError::Interval)?;
    let interval = SignedDuration::from_secs(seconds);
    (MIN_INTERVAL..=MAX_INTERVAL).contains(&interval).then_some(interval).ok_or(ScheduleError::Interval)
}

impl Schedule {
    /// Returns the first time of the schedule after another one; `None` if the schedule ends.
    #[must_use]
    pub fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Every(interval) => time.checked_add(*interval).ok(),
            Self::Cron(crontab) => crontab.find_next(time.to_string().as_str()).ok().map(|next| next.timestamp()),
        }
    }
}

/// The due times of runs.
#[derive(Debug)]
pub struct Timetable {
    schedule: Schedule,
    last: Option<Timestamp>,
}

impl Timetable {
    /// Makes a timetable. `last` is the time of the last run, if there was one.
    #[must_use]
    pub fn new(schedule: Schedule, last: Option<Timestamp>) -> Self {
        Self { schedule, last }
    }

    /// Notes a run, however it ends.
    pub fn note_run(&mut self, at: Timestamp) {
        self.last = Some(at);
    }

    /// Notes a run that another server may have made. An older one than the last changes nothing.
    pub fn note_other_run(&mut self, at: Option<Timestamp>) {
        self.last = self.last.max(at);
    }

    /// Returns the time at which the next run is due; `now` or a time before it if it is due already. Without any run so
    /// far, one is due now.
    pub fn due(&mut self, now: Timestamp) -> Timestamp {
        let Some(last) = &mut self.last else { return now };
        *last = (*last).min(now);
        // A schedule has a next time, or it would have been refused; the end of all dates is far away.
        self.schedule.next_after(*last).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn timetable(schedule: &str, last: Option<&str>) -> Timetable {
        Timetable::new(schedule.parse().unwrap(), last.map(at))
    }

    #[test]
    fn schedules_are_read_and_anything_else_is_refused_with_the_form() {
        for (text, next) in [
            ("every 6h", "2026-03-01T18:30:00Z"),
            (" every  90m ", "2026-03-01T14:00:00Z"),
            ("every 2d", "2026-03-03T12:30:00Z"),
            ("0 3 * * *", "2026-03-02T03:00:00Z"),
            ("*/15 * * * *", "2026-03-01T12:45:00Z"),
            ("30 12 * * MON", "2026-03-02T12:30:00Z"),
        ] {
            let schedule: Schedule = text.parse().unwrap();
            assert_eq!(schedule.next_after(at("2026-03-01T12:30:00Z")), Some(at(next)), "{text}");
        }
        for wrong in [
            "",
            "daily",
            "every",
            "every ",
            "every h",
            "every 6",
            "every 6 hours",
            "every 30s",
            "every 0h",
            "every 400d",
            "evry 6h",
            "every 99999999999999999999h",
            "0 3 * *",
            "0 3 * * * *",
            "0 3 * * * Europe/Oslo",
            "61 3 * * *",
            "0 25 * * *",
            "0 3 31 4 *",
            "a b c d e",
        ] {
            assert!(wrong.parse::<Schedule>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn missed_runs_are_made_up_for_by_one() {
        let mut table = timetable("every 6h", Some("2026-03-01T00:00:00Z"));
        let now = at("2026-03-04T01:00:00Z");
        assert!(table.due(now) <= now);
        table.note_run(now);
        assert_eq!(table.due(now), at("2026-03-04T07:00:00Z"));
        let mut table = timetable("0 3 * * *", Some("2026-03-01T03:00:00Z"));
        assert!(table.due(now) <= now);
        table.note_run(now);
        assert_eq!(table.due(now), at("2026-03-04T03:00:00Z"));
        let mut first = timetable("0 3 * * *", None);
        assert_eq!(first.due(now), now, "a directory without a backup gets one");
    }

    /// A clock that jumps forth and back causes one run for each jump, and never none for longer than the schedule says.
    #[test]
    fn a_clock_that_jumps_causes_neither_a_storm_nor_a_gap() {
        for schedule in ["every 6h", "0 */6 * * *"] {
            let mut table = timetable(schedule, Some("2026-03-01T00:00:00Z"));
            let mut runs = 0;
            for _ in 0..1_000 {
                // Forth by years, and looked at a thousand times.
                let now = at("2030-01-01T00:10:00Z");
                if table.due(now) <= now {
                    runs += 1;
                    table.note_run(now);
                }
            }
            assert_eq!(runs, 1, "{schedule}");
            let back = at("2026-03-01T01:00:00Z");
            let due = table.due(back);
            assert!(due > back && due <= at("2026-03-01T07:00:00Z"), "{schedule}: {due}");
            assert_eq!(table.due(at("2026-03-01T02:00:00Z")), due, "{schedule}: the wait does not begin again");
        }
    }

    #[test]
    fn a_run_of_another_server_counts() {
        let mut table = timetable("every 6h", Some("2026-03-01T00:00:00Z"));
        table.note_other_run(Some(at("2026-03-01T05:00:00Z")));
        table.note_other_run(None);
        table.note_other_run(Some(at("2026-02-01T05:00:00Z")));
        assert_eq!(table.due(at("2026-03-01T06:00:00Z")), at("2026-03-01T11:00:00Z"));
    }
}
