//! A progress bar on standard error, when that is a terminal, for what takes longer than a second.

use std::{
    io::IsTerminal as _,
    sync::Mutex,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long something may take without a bar.
const QUIET: Duration = Duration::from_secs(1);

/// What a bar counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things, such as resources.
    Items,
    /// Bytes.
    Bytes,
}

/// The progress of one long step. It shows nothing by itself in the first second, nor off a terminal, and takes itself
/// away when it is dropped.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    begun: Instant,
    shown: Mutex<bool>,
}

impl Progress {
    /// Begins; `total` is `None` when the end is not known.
    #[must_use]
    pub fn begin(what: &str, total: Option<u64>, unit: Unit) -> Self {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        let template = match (unit, total) {
            (Unit::Items, Some(_)) => "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}",
            (Unit::Items, None) => "{msg} {spinner} {human_pos} {per_sec}",
            (Unit::Bytes, Some(_)) => "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            (Unit::Bytes, None) => "{msg} {spinner} {bytes} {bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        Self { bar, begun: Instant::now(), shown: Mutex::new(false) }
    }

    /// So many more are done.
    pub fn advance(&self, by: u64) {
        if let Ok(mut shown) = self.shown.lock()
            && !*shown
            && self.begun.elapsed() >= QUIET
        {
            *shown = true;
            if std::io::stderr().is_terminal() {
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
        }
        self.bar.inc(by);
    }

    /// Prints above the bar, so that the two do not mix.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
