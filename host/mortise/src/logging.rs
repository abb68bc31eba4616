//! Logs: one line for each event, on stderr, coloured on a terminal only.

use std::io::IsTerminal as _;

use tracing_subscriber::fmt::{self, format::FmtSpan};

use crate::settings::{Log, SettingError};

/// Starts logging. Spans are off unless `log.spans` enables them; each place that makes a span asks once, when it is
/// first reached, and then costs one load.
pub(crate) fn start(log: &Log) -> Result<(), SettingError> {
    let filter = log.filter()?;
    let spans = if log.spans { FmtSpan::CLOSE } else { FmtSpan::NONE };
    fmt::fmt()
        .with_env_filter(filter)
        .with_span_events(spans)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}
