//! A file of the plugin folder: its state and transitions.
//!
//! ```text
//!                 looks different            looked the same for `settle`
//!   Unchanged ─────────────────▶ Settling ─────────────────────────────────────────▶ Loading
//!      ▲  ▲                      ▲ ▲   ▲                                              │ │ │
//!      │  └── as it was ─────────┘ │   └────────── changed while it was read ─────────┘ │ │
//!      │                           │ changed            ends within a section           │ │
//!      │                       Incomplete ◀─────────────────────────────────────────────┘ │
//!      │                           └── same for `unfinished` ───────────▶ Loading         │
//!      └─────────────────────────────────────────── loaded or rejected ───────────────────┘
//! ```
//!
//! Content that was rejected for a fault that may pass, such as a full disk, is loaded again after a pause, which doubles
//! from a second to a minute.
//!
//! While a file is `Loading` a separate task handles it, and scans of the folder skip it. The result of that task
//! counts only while the file still holds the content that the task began with ([`PluginFile::is_loading`]).

use std::time::{Duration, Instant};

use crate::{files::folder::Stamp, retry::retry_pause};

/// State of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum FileState {
    /// It looks the same as when it was handled.
    #[default]
    Unchanged,
    /// It has looked different since `since`; `None` means that it is missing.
    Settling { stamp: Option<Stamp>, since: Instant },
    /// It ends within a section and has looked the same since `since`: the rest is awaited.
    Incomplete { stamp: Stamp, since: Instant },
    /// A task reads it and loads its content, or takes its plugin out of service when it is missing.
    Loading,
}

/// Result of the content that was handled last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Outcome {
    /// The content was not read.
    #[default]
    Unread,
    Loaded,
    Rejected,
    /// It was rejected and must be loaded again although it did not change.
    Retry,
    /// It was rejected for a fault that may pass, and must be loaded again at that time.
    Postponed {
        until: Instant,
    },
}

/// Result of a look at a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Observation {
    /// The file needs no work.
    Nothing,
    /// The file is missing, and was never handled.
    NeverThere,
    /// The file needs no work before this time is over.
    Wait(Duration),
    /// The file changed, or must be loaded again, and has looked like this since then.
    Changed(Option<Stamp>, Instant),
}

/// A file of the plugin folder.
#[derive(Debug, Default, Clone)]
pub(crate) struct PluginFile {
    state: FileState,
    outcome: Outcome,
    /// Attempts in a row that ended with a fault that may pass.
    attempts: u32,
    /// Stamp of the content that was handled last.
    stamp: Option<Stamp>,
    /// Digest of the content that was handled last; `None` if it could not be read.
    digest: Option<String>,
    /// The plugin that came from it.
    pub(crate) provides: Option<String>,
    /// The record that shows its fault, if that is not the plugin's record.
    pub(crate) shown: Option<String>,
}

impl PluginFile {
    /// Compares the current state with the one that was handled.
    pub(crate) fn observe(&mut self, now: Option<Stamp>, settle: Duration, unfinished: Duration) -> Observation {
        let pause = match self.outcome {
            Outcome::Retry => Duration::ZERO,
            Outcome::Postponed { until } => until.saturating_duration_since(Instant::now()),
            _ => Duration::MAX,
        };
        let retry = pause.is_zero();
        if self.state == FileState::Loading {
            return Observation::Nothing;
        }
        if self.stamp == now && !retry {
            self.state = FileState::Unchanged;
            return match now {
                None => Observation::NeverThere,
                Some(_) if pause < Duration::MAX => Observation::Wait(pause),
                Some(_) => Observation::Nothing,
            };
        }
        let (since, wait) = match self.state {
            FileState::Settling { stamp, since } if stamp == now => (since, settle),
            FileState::Incomplete { stamp, since } if Some(stamp) == now => (since, unfinished),
            _ => {
                let since = Instant::now();
                self.state = FileState::Settling { stamp: now, since };
                (since, settle)
            }
        };
        let wait = if retry { Duration::ZERO } else { wait };
        match wait.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
            Some(left) => Observation::Wait(left),
            None => Observation::Changed(now, since),
        }
    }

    /// Records that a task begins to read the file.
    pub(crate) fn load_begins(&mut self) {
        self.state = FileState::Loading;
    }

    /// Records that the task has read this content, or failed to.
    pub(crate) fn was_read(&mut self, stamp: Stamp, digest: Option<&str>) {
        if self.stamp != Some(stamp) {
            self.attempts = 0;
        }
        (self.stamp, self.digest) = (Some(stamp), digest.map(str::to_owned));
    }

    /// Whether a task loads the content of that digest.
    pub(crate) fn is_loading(&self, digest: &str) -> bool {
        self.state == FileState::Loading && self.digest() == Some(digest)
    }

    /// Whether a task handles the file, with any content.
    pub(crate) fn is_busy(&self) -> bool {
        self.state == FileState::Loading
    }

    /// Records that the file changed while it was read; it settles again.
    pub(crate) fn changed_meanwhile(&mut self) {
        self.state = FileState::Unchanged;
    }

    /// Records that the file ends within a section.
    pub(crate) fn is_incomplete(&mut self, stamp: Stamp, since: Instant) {
        self.state = FileState::Incomplete { stamp, since };
        self.retry_is_over();
    }

    /// Records that this state of the file was handled without a load.
    pub(crate) fn skip(&mut self, stamp: Stamp) {
        (self.state, self.stamp) = (FileState::Unchanged, Some(stamp));
        self.retry_is_over();
    }

    fn retry_is_over(&mut self) {
        if matches!(self.outcome, Outcome::Retry | Outcome::Postponed { .. }) {
            self.outcome = Outcome::Rejected;
        }
    }

    /// Records that the content serves.
    pub(crate) fn loaded(&mut self) {
        (self.state, self.outcome, self.attempts) = (FileState::Unchanged, Outcome::Loaded, 0);
    }

    /// Records that the content was rejected.
    pub(crate) fn rejected(&mut self) {
        (self.state, self.outcome, self.attempts) = (FileState::Unchanged, Outcome::Rejected, 0);
    }

    /// Records that the content was rejected for a fault that may pass.
    pub(crate) fn postponed(&mut self) {
        let pause = retry_pause(self.attempts);
        self.attempts = self.attempts.saturating_add(1);
        (self.state, self.outcome) = (FileState::Unchanged, Outcome::Postponed { until: Instant::now() + pause });
    }

    /// Records that the manager itself wrote the file, and serves its content.
    pub(crate) fn installed(&mut self, stamp: Option<Stamp>, digest: String) {
        (self.stamp, self.digest) = (stamp, Some(digest));
        self.loaded();
    }

    /// Records that the manager itself replaced the file (`before`) and restored it (`now`). This does not count as a
    /// change; a change that was not handled before still counts.
    pub(crate) fn put_back(&mut self, before: Option<Stamp>, now: Option<Stamp>) {
        if self.stamp == before {
            self.stamp = now;
        }
    }

    /// Clears a rejection: the content is not wanted now, so its fault no longer matters.
    pub(crate) fn clear_rejection(&mut self) {
        if self.is_rejected() {
            self.outcome = Outcome::Loaded;
        }
    }

    /// Records the digest of content that an operator's command has read.
    pub(crate) fn set_digest(&mut self, digest: &str) {
        self.digest = Some(digest.to_owned());
    }

    /// Marks a rejected file for another load.
    pub(crate) fn retry_if_rejected(&mut self) {
        if self.is_rejected() {
            self.outcome = Outcome::Retry;
        }
    }

    /// Gives up the record that showed the file's fault; the file gets a new one when it is loaded again.
    pub(crate) fn lose_record(&mut self) {
        (self.shown, self.outcome) = (None, Outcome::Retry);
    }

    pub(crate) fn is_rejected(&self) -> bool {
        matches!(self.outcome, Outcome::Rejected | Outcome::Retry | Outcome::Postponed { .. })
    }

    /// Whether the content of this digest was handled last and not rejected; a rejected file is tried again when it is
    /// touched.
    pub(crate) fn holds(&self, digest: &str) -> bool {
        self.digest() == Some(digest) && !self.is_rejected()
    }

    /// SHA-256 of the content that was handled last; `None` if it could not be read.
    pub(crate) fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::{MAX_RETRY_PAUSE, RETRY_PAUSE};

    const SETTLE: Duration = Duration::from_secs(60);

    fn stamps() -> (Stamp, Stamp) {
        let dir = tempfile::tempdir().unwrap();
        let stamp = |name: &str| {
            std::fs::write(dir.path().join(name), name).unwrap();
            Stamp::at(&dir.path().join(name)).unwrap()
        };
        (stamp("a"), stamp("b"))
    }

    #[test]
    fn a_file_settles_is_passed_over_while_it_loads_and_is_quiet_afterwards() {
        let (stamp, other) = stamps();
        let mut file = PluginFile::default();
        let look = |file: &mut PluginFile, now, settle| file.observe(now, settle, SETTLE);
        assert!(matches!(look(&mut file, Some(stamp), SETTLE), Observation::Wait(_)));
        assert!(
            matches!(look(&mut file, Some(stamp), Duration::ZERO), Observation::Changed(now, _) if now == Some(stamp))
        );
        file.load_begins();
        assert_eq!(look(&mut file, Some(other), Duration::ZERO), Observation::Nothing);
        file.was_read(stamp, Some("1"));
        assert!(file.is_loading("1") && !file.is_loading("2"));
        file.loaded();
        assert!(file.holds("1"));
        assert_eq!(look(&mut file, Some(stamp), Duration::ZERO), Observation::Nothing);
        assert!(
            matches!(look(&mut file, Some(other), SETTLE), Observation::Wait(_)),
            "the file changed while it was loading"
        );
        assert!(matches!(look(&mut file, None, Duration::ZERO), Observation::Changed(None, _)));
    }

    #[test]
    fn one_that_never_was_handled_leaves_nothing() {
        let mut file = PluginFile::default();
        assert!(matches!(file.observe(Some(stamps().0), SETTLE, SETTLE), Observation::Wait(_)));
        assert_eq!(file.observe(None, SETTLE, SETTLE), Observation::NeverThere);
    }

    #[test]
    fn an_incomplete_file_is_read_again_when_it_changes_or_its_time_is_over() {
        let (stamp, other) = stamps();
        let mut file = PluginFile::default();
        file.load_begins();
        file.is_incomplete(stamp, Instant::now());
        assert!(matches!(file.observe(Some(stamp), Duration::ZERO, SETTLE), Observation::Wait(_)));
        assert!(matches!(file.observe(Some(stamp), SETTLE, Duration::ZERO), Observation::Changed(..)));
        assert!(matches!(file.observe(Some(other), Duration::ZERO, SETTLE), Observation::Changed(..)));
    }

    #[test]
    fn what_was_refused_is_tried_again_at_once_and_what_serves_is_not() {
        let (stamp, _) = stamps();
        let mut file = PluginFile::default();
        file.was_read(stamp, Some("1"));
        file.rejected();
        assert!(!file.holds("1"));
        assert_eq!(file.observe(Some(stamp), SETTLE, SETTLE), Observation::Nothing);
        file.retry_if_rejected();
        assert!(matches!(file.observe(Some(stamp), SETTLE, SETTLE), Observation::Changed(..)));
        file.skip(stamp);
        assert_eq!(file.observe(Some(stamp), SETTLE, SETTLE), Observation::Nothing);
        file.loaded();
        file.retry_if_rejected();
        assert_eq!(file.observe(Some(stamp), SETTLE, SETTLE), Observation::Nothing);
    }

    #[test]
    fn content_with_a_fault_that_may_pass_is_tried_again_ever_later() {
        let (stamp, other) = stamps();
        let mut file = PluginFile::default();
        let pause = |file: &mut PluginFile| match file.observe(Some(stamp), SETTLE, SETTLE) {
            Observation::Wait(pause) => pause,
            seen => panic!("{seen:?}"),
        };
        let mut longest = Duration::ZERO;
        for attempt in 0..10 {
            file.was_read(stamp, Some("1"));
            file.postponed();
            assert!(file.is_rejected() && !file.holds("1"));
            let pause = pause(&mut file);
            assert!(pause <= RETRY_PAUSE * (1 << attempt) && pause >= longest && pause <= MAX_RETRY_PAUSE, "{pause:?}");
            longest = pause.saturating_sub(RETRY_PAUSE / 2);
        }
        // Its time has come.
        file.outcome = Outcome::Postponed { until: Instant::now() };
        assert!(matches!(file.observe(Some(stamp), SETTLE, SETTLE), Observation::Changed(..)));
        // Other content begins with a short pause.
        file.was_read(other, None);
        file.postponed();
        assert!(matches!(file.observe(Some(other), SETTLE, SETTLE), Observation::Wait(pause) if pause <= RETRY_PAUSE));
        file.loaded();
        assert_eq!(file.observe(Some(other), SETTLE, SETTLE), Observation::Nothing);
        // A disabled plugin's file waits for no attempt.
        file.postponed();
        file.skip(other);
        assert_eq!(file.observe(Some(other), SETTLE, SETTLE), Observation::Nothing);
    }

    #[test]
    fn one_that_was_put_back_has_not_changed_unless_it_had_before() {
        let (stamp, other) = stamps();
        let mut file = PluginFile::default();
        file.installed(Some(stamp), "1".to_owned());
        file.put_back(Some(stamp), Some(other));
        assert_eq!(file.observe(Some(other), SETTLE, SETTLE), Observation::Nothing);
        file.put_back(Some(stamp), Some(stamp));
        assert!(matches!(file.observe(Some(stamp), SETTLE, SETTLE), Observation::Wait(_)));
    }
}
