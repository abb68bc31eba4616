//! The settings of scheduled backups.

use std::path::PathBuf;

use jiff::SignedDuration;
use mortise_backup::{Retention, Schedule};
use mortise_plugin_host::units::Seconds;

use super::{
    declare::{Section, Setting, section},
    error::SettingError,
    range::Range,
};

/// Ten years.
const MAX_KEEP_S: i64 = 10 * 366 * 24 * 60 * 60;

section! {
    /// Backups that the server takes by itself (docs/operations.md). Each is verified before it has its name. Of servers
    /// that share a store one at a time takes them.
    struct Backup in "backup" {
        /// Times of backups: "every 6h" (with m, h or d), or the five fields of cron in UTC, as in "0 3 * * *": minute,
        /// hour, day of the month, month, day of the week. Backups that were missed are made up for by one, at the
        /// start. Empty: none.
        schedule: String = String::new();
        /// Directory of the files. It should be on another disk. Empty: `backups` in data_dir.
        dir: PathBuf = PathBuf::new();
        /// Number of files; after each backup, older ones are removed. 0: no bound.
        keep: usize = 7, Range::new(0, 100_000);
        /// Age of files; after each backup, older ones are removed, but never the newest one. 0: no bound.
        keep_for_s: Seconds = Seconds(0), Range::seconds(60, MAX_KEEP_S).or_zero();
        /// Whether backups have the configuration's file in them.
        include_config: bool = true;
    }
}

impl Backup {
    /// Checks the schedule.
    pub(super) fn check(&self) -> Result<(), SettingError> {
        self.times().map(drop)
    }

    /// Returns the schedule, if there is one.
    pub(crate) fn times(&self) -> Result<Option<Schedule>, SettingError> {
        if self.schedule.is_empty() {
            return Ok(None);
        }
        let wrong = |source| SettingError::Schedule { text: self.schedule.clone(), source: Box::new(source) };
        self.schedule.parse().map(Some).map_err(wrong)
    }

    /// Returns the rules for old files.
    pub(crate) fn retention(&self) -> Retention {
        let seconds = i64::try_from(self.keep_for_s.0).unwrap_or(i64::MAX);
        Retention {
            count: Some(self.keep).filter(|count| *count > 0),
            age: Some(SignedDuration::from_secs(seconds)).filter(|age| !age.is_zero()),
        }
    }
}
