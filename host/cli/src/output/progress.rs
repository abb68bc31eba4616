//! A progress bar on standard error, when that is a terminal, for steps that take longer than a second.

use std::{
    io::IsTerminal as _,
    sync::Mutex,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Longest time of a step without a bar.
const BAR_DELAY: Duration = Duration::from_secs(1);

/// Unit of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things, such as resources.
    Items,
    /// Bytes.
    Bytes,
}

/// The progress of one long step. Nothing is shown in the first second, nor off a terminal; the bar disappears when it
/// is dropped.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    begun: Instant,
    shown: Mutex<bool>,
}

impl Progress {
    /// Begins a step; `total` is `None` when the end is unknown.
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

    /// Counts `by` more.
    pub fn advance(&self, by: u64) {
        if let Ok(mut shown) = self.shown.lock()
            && !*shown
            && self.begun.elapsed() >= BAR_DELAY
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
