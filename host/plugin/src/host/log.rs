//! `log`: the plugin's log, bounded for each request, and by [`Logs`](crate::Logs) for each second. Dropped lines are
//! counted and reported when the request ends. Contents of redacted fields of resources are removed.

use crate::{
    bindings::imports::mortise::plugin::log::Host,
    health::{log_level::LogLevel, logs::plain},
    host::state::State,
};

impl Host for State {
    fn write(&mut self, level: u8, message: String, fields: Vec<(String, String)>) -> wasmtime::Result<()> {
        self.count_host_call()?;
        if LogLevel::from_number(level.into()) == Some(LogLevel::Error) {
            let text = plain(&self.secrets.lock().hide(&message));
            self.last_error = text.chars().take(MAX_LAST_ERROR_CHARS).collect();
        }
        self.log(LogLevel::from_number(level.into()).unwrap_or(LogLevel::Info), message, fields);
        Ok(())
    }
}

/// Longest part of an error's line that is kept for the description of a trap, characters.
const MAX_LAST_ERROR_CHARS: usize = 200;

/// Bytes that a line counts beyond its text, so that empty lines are bounded too.
const LINE_COST: usize = 32;

impl State {
    /// Writes a line to the plugin's log, or drops and counts it.
    pub(crate) fn log(&mut self, level: LogLevel, message: String, fields: Vec<(String, String)>) {
        if !self.logs.accepts_level(&self.plugin, level) {
            return;
        }
        let size = LINE_COST + message.len() + fields.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
        if self.logged_bytes + size > self.limits.log_bytes {
            self.dropped_logs += 1;
            return;
        }
        self.logged_bytes += size;
        let secrets = self.secrets.lock();
        let fields = fields.into_iter().map(|(key, value)| (key, secrets.hide(&value).into_owned())).collect();
        self.logs.log_guest_line(&self.plugin, self.hook, level, &secrets.hide(&message), fields);
    }
}
