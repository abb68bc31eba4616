//! Logs: one line for each event, on stderr, coloured on a terminal only. A panic is such an event.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::IsTerminal as _,
    time::Duration,
};

use tracing_subscriber::{
    EnvFilter, Registry,
    fmt::{self, format::FmtSpan},
    layer::SubscriberExt as _,
    reload,
    util::SubscriberInitExt as _,
};

use crate::{
    log_output::LogOutput,
    settings::{self, SettingError},
};

/// Longest wait for the last lines of the log at the end of the process.
const LAST_LINES_WAIT: Duration = Duration::from_millis(500);

/// The started log. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Log {
    output: LogOutput,
    filter: reload::Handle<EnvFilter, Registry>,
    spans: bool,
}

/// Reason why the log did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    #[error("{0}")]
    Level(#[from] SettingError),
    #[error("the thread of the log cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}

impl Log {
    /// Starts logging, and logs each panic from then on. Spans are off unless `log.spans` enables them; each place that
    /// makes a span asks once, when it is first reached, and then costs one load.
    pub(crate) fn start(log: &settings::Log) -> Result<Self, LogError> {
        let (layer, filter) = reload::Layer::new(log.filter()?);
        let output = LogOutput::start()?;
        let writer = output.clone();
        let lines = fmt::layer()
            .with_span_events(if log.spans { FmtSpan::CLOSE } else { FmtSpan::NONE })
            .with_ansi(std::io::stderr().is_terminal())
            // Its own report of a fault would panic.
            .log_internal_errors(false)
            .with_writer(move || writer.clone());
        tracing_subscriber::registry().with(layer).with(lines).init();
        log_panics();
        Ok(Self { output, filter, spans: log.spans })
    }

    /// Changes the level of the log. Whether there are spans stays as at the start.
    pub(crate) fn set_level(&self, level: &str) -> Result<(), SettingError> {
        let filter = settings::Log { level: level.to_owned(), spans: self.spans }.filter()?;
        // Fails only if the log is gone, and the log lasts as long as the process.
        let _ = self.filter.reload(filter);
        Ok(())
    }

    /// Writes a line for people, without time and level.
    pub(crate) fn plain(&self, line: &str) {
        self.output.line(format!("{line}\n").as_bytes());
    }

    /// Waits a moment for lines that are still being written.
    pub(crate) fn flush(&self) {
        self.output.flush(LAST_LINES_WAIT);
    }
}

/// Logs and counts panics. The standard library would write them to stderr, and wait for its reader.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        metrics::counter!("mortise_panics_total").increment(1);
        let thread = std::thread::current();
        let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        let text = panic.payload_as_str().unwrap_or("no message");
        let backtrace = Backtrace::capture();
        let backtrace = match backtrace.status() {
            BacktraceStatus::Captured => format!("\n{backtrace}"),
            _ => String::new(),
        };
        tracing::error!(thread = thread.name().unwrap_or("?"), "panicked at {place}: {text}{backtrace}");
    }));
}
