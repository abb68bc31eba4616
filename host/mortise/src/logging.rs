//! Logs: one line an event, on stderr, coloured on a terminal only.

use std::io::IsTerminal as _;

use tracing_subscriber::{EnvFilter, fmt};

use crate::config::{ConfigError, Log};

/// Starts logging. `log.level` is a level or a filter such as `info,plugin=debug`.
pub(crate) fn start(log: &Log) -> Result<(), ConfigError> {
    let filter =
        EnvFilter::try_new(&log.level).map_err(|source| ConfigError::LogLevel { level: log.level.clone(), source })?;
    fmt::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal()).init();
    Ok(())
}
