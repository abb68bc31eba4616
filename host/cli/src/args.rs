//! Command-line values that several commands share.

use std::time::Duration;

use crate::error::CliError;

/// Fault in a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text is not a number with a unit.
    #[error("{0:?} is not a duration; use 500ms, 30s, 5m or 1h")]
    Malformed(String),
    /// The duration is zero, or longer than a year.
    #[error("{0:?} is out of range; use 1ms to a year")]
    OutOfRange(String),
}

/// Parses a duration: a number followed by ms, s, m or h; without a unit, seconds. Above zero, at most a year.
///
/// # Errors
/// The text is malformed or out of range.
pub fn duration(text: &str) -> Result<Duration, DurationError> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(DurationError::Malformed(text.to_owned())),
    };
    let number: f64 = number.parse().map_err(|_| DurationError::Malformed(text.to_owned()))?;
    let total = number * seconds;
    if !(0.001..=366.0 * 86_400.0).contains(&total) {
        return Err(DurationError::OutOfRange(text.to_owned()));
    }
    Ok(Duration::from_secs_f64(total))
}

/// Fault in the value of `--dry-run`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use --dry-run, --dry-run=server, --dry-run=client or --dry-run=none")]
pub struct DryRunError;

/// Parses kubectl's values of `--dry-run`. The server takes part in each dry run: it alone has the defaults and checks.
///
/// # Errors
/// The value is unknown.
pub(crate) fn dry_run(text: &str) -> Result<bool, DryRunError> {
    match text {
        "server" | "client" | "true" => Ok(true),
        "none" | "false" => Ok(false),
        _ => Err(DryRunError),
    }
}

/// Parses true or false from an environment variable.
pub(crate) fn boolean(name: &str, text: &str) -> Result<bool, CliError> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(CliError::usage(format!("environment variable {name}: must be true or false, got {text:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let cases =
            [("500ms", 500), ("30s", 30_000), ("2", 2_000), ("1.5s", 1_500), ("5m", 300_000), ("1h", 3_600_000)];
        for (text, ms) in cases {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "0", "0s", "-1s", "1d", "s", "1.2.3s", "1 s", "999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
