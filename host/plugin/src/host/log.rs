//! `log`: the plugin's log, under the target `plugin`, bounded for each request. What is dropped is counted and said
//! when the request ends.

use std::fmt::Write as _;

use crate::{bindings::imports::mortise::plugin::log::Host, state::State};

impl Host for State {
    fn write(&mut self, level: u8, message: String, fields: Vec<(String, String)>) -> wasmtime::Result<()> {
        self.count_host_call()?;
        self.log(level, message, fields);
        Ok(())
    }
}

/// What a line counts for beyond its text, so that empty ones are bounded too.
const LINE_COST: usize = 32;

impl State {
    /// Writes a line to the plugin's log, or drops and counts it.
    pub(crate) fn log(&mut self, level: u8, message: String, fields: Vec<(String, String)>) {
        let size = LINE_COST + message.len() + fields.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
        if self.logged_bytes + size > self.limits.log_bytes {
            self.dropped_logs += 1;
            return;
        }
        self.logged_bytes += size;

        let mut text = message;
        for (name, value) in fields {
            // Writing to a string cannot fail.
            let _ = write!(text, " {name}={value:?}");
        }
        // A guest must not be able to forge lines of the host's log.
        let text = text.replace(|c: char| c.is_control() && c != '\t', "\u{2424}");
        let plugin = &*self.plugin;
        match level {
            1 => tracing::error!(target: "plugin", plugin, "{text}"),
            2 => tracing::warn!(target: "plugin", plugin, "{text}"),
            4 => tracing::debug!(target: "plugin", plugin, "{text}"),
            5 => tracing::trace!(target: "plugin", plugin, "{text}"),
            _ => tracing::info!(target: "plugin", plugin, "{text}"),
        }
    }
}
