//! Settings `[plugin.scheduled-jobs.settings]`; each has a default.

use mortise_plugin::{Diagnostics, setting};
use serde::Deserialize;

/// Settings of the plugin.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    /// Number of kept runs of a schedule that has none of its own.
    pub(crate) keep: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { keep: 3 }
    }
}

impl mortise_plugin::Settings for Settings {
    fn check(&self, diagnostics: &mut Diagnostics) {
        if self.keep == 0 {
            diagnostics.error("must be at least 1").at(setting("keep"));
        }
    }
}
