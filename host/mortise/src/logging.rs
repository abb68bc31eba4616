//! Logs: one line an event, on stderr, coloured on a terminal only.

use std::io::IsTerminal as _;

use tracing_subscriber::{EnvFilter, fmt, fmt::format::FmtSpan};

use crate::config::{ConfigError, Log};

/// The target of spans: requests, and the hooks within them.
const SPANS: &str = "mortise::span=debug";

/// Starts logging. `log.level` is a level or a filter such as `info,plugin=debug`. Spans are off unless `log.spans` asks
/// for them; each place that makes one asks once, when it is first reached, and then costs one load.
pub(crate) fn start(log: &Log) -> Result<(), ConfigError> {
    let text = if log.spans { format!("{},{SPANS}", log.level) } else { log.level.clone() };
    let filter =
        EnvFilter::try_new(text).map_err(|source| ConfigError::LogLevel { level: log.level.clone(), source })?;
    let spans = if log.spans { FmtSpan::CLOSE } else { FmtSpan::NONE };
    fmt::fmt()
        .with_env_filter(filter)
        .with_span_events(spans)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}
