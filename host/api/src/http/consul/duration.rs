//! Durations as Go prints and parses them, such as `1m30s`.

use std::time::Duration;

/// Units and their nanoseconds; a unit precedes those that it begins with.
const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// Most bytes of a duration.
const MAX_BYTES: usize = 64;

/// Parses a duration; `None` if the text is malformed or negative.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() || rest.len() > MAX_BYTES {
        return None;
    }
    let mut nanoseconds = 0.0_f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, behind) = rest.split_at_checked(end)?;
        let number: f64 = number.parse().ok().filter(|_| number.bytes().any(|b| b.is_ascii_digit()))?;
        let (unit, factor) = UNITS.iter().find(|(unit, _)| behind.starts_with(unit))?;
        nanoseconds += number * factor;
        rest = behind.strip_prefix(unit)?;
    }
    Duration::try_from_secs_f64(nanoseconds / 1e9).ok()
}

/// Prints a duration in whole milliseconds, as Go does.
pub(super) fn print(duration: Duration) -> String {
    let (seconds, milliseconds) = (duration.as_secs(), duration.subsec_millis());
    if seconds == 0 && milliseconds > 0 {
        return format!("{milliseconds}ms");
    }
    let fraction = match milliseconds {
        0 => String::new(),
        part => format!(".{part:03}").trim_end_matches('0').to_owned(),
    };
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}{fraction}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}{fraction}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos() {
        let milliseconds = |text: &str| parse(text).map(|found| found.as_millis());
        for (text, expected) in [
            ("5m", 300_000),
            ("60000ms", 60_000),
            ("1h2m3.5s", 3_723_500),
            ("+10s", 10_000),
            ("0", 0),
            ("0s", 0),
            (".5s", 500),
            ("1000000ns", 1),
            ("2000us", 2),
            ("2000µs", 2),
        ] {
            assert_eq!(milliseconds(text), Some(expected), "{text}");
        }
        for wrong in ["", "5", "-5s", "5x", "s", ".s", "5 s", "1..5s", "5m3", "1e3s", &"1s".repeat(33)] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(parse("9999999999999999999h"), None, "too long");
    }

    #[test]
    fn printed_durations_are_gos() {
        for (milliseconds, text) in [
            (0, "0s"),
            (10, "10ms"),
            (1_500, "1.5s"),
            (10_000, "10s"),
            (60_000, "1m0s"),
            (3_600_000, "1h0m0s"),
            (86_400_000, "24h0m0s"),
        ] {
            assert_eq!(print(Duration::from_millis(milliseconds)), text);
        }
    }
}
