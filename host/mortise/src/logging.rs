//! Logs: one line an event, on stderr, coloured on a terminal only.

use std::io::IsTerminal as _;

use tracing_subscriber::{
    EnvFilter,
    filter::LevelFilter,
    fmt::{self, format::FmtSpan},
};

use crate::config::{ConfigError, Log};

/// The target of spans: requests, and the hooks within them.
const SPANS: &str = "mortise::span=debug";

/// What is logged. `log.level` is a level or a filter such as `info,plugin=debug`; spaces around its parts do not count.
///
/// A word by itself that is no level would be taken for a target: `inf` would log nothing at all, errors included. So a
/// target needs its level.
pub(crate) fn filter(log: &Log) -> Result<EnvFilter, ConfigError> {
    let refused = |what: String| ConfigError::LogLevel { level: log.level.clone(), what };
    let mut parts: Vec<&str> = log.level.split(',').map(str::trim).collect();
    let is_lone = |part: &&&str| !part.contains(['=', '[']) && part.parse::<LevelFilter>().is_err();
    if let Some(word) = parts.iter().find(is_lone) {
        return Err(refused(format!("{word:?} is no level, and a target needs one, as in \"{word}=debug\"")));
    }
    if log.spans {
        parts.push(SPANS);
    }
    EnvFilter::try_new(parts.join(",")).map_err(|e| refused(e.to_string()))
}

/// Starts logging. Spans are off unless `log.spans` asks for them; each place that makes one asks once, when it is first
/// reached, and then costs one load.
pub(crate) fn start(log: &Log) -> Result<(), ConfigError> {
    let filter = filter(log)?;
    let spans = if log.spans { FmtSpan::CLOSE } else { FmtSpan::NONE };
    fmt::fmt()
        .with_env_filter(filter)
        .with_span_events(spans)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused_and_not_taken_for_a_target() {
        let of = |level: &str| filter(&Log { level: level.into(), spans: true }).map_err(|e| e.to_string());
        for level in ["info", "WARN", "off", "5", "info,plugin=debug", "info, plugin=debug", "warn,[rpc]=info", ""] {
            assert!(of(level).is_ok(), "{level}");
        }
        for (level, word) in [("inf", "inf"), ("info,plugin", "plugin"), ("6", "6"), ("warn, eror", "eror")] {
            let fault = of(level).unwrap_err();
            assert!(fault.starts_with(&format!("log.level {level:?} is no filter: {word:?} is no level, ")), "{fault}");
            assert!(fault.ends_with("use error, warn, info, debug or trace"), "{fault}");
        }
        let spaced = of("info, plugin=debug").unwrap().to_string();
        assert!(spaced.contains("plugin=debug") && !spaced.contains(' '), "{spaced}");
    }
}
