//! Timestamps and durations in texts.

use jiff::civil::DateTime;

/// First second of the year 1 and last second of the year 9999, the bounds of protobuf's timestamps.
pub(crate) const TIMESTAMP_SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// Largest duration in seconds, positive or negative: about 10,000 years.
pub(crate) const DURATION_SECONDS: i64 = 315_576_000_000;

/// Seconds and nanoseconds (0 to 999,999,999) since 1970, from RFC 3339.
pub(crate) fn parse_timestamp(text: &str) -> Option<(i64, i32)> {
    // jiff reads other spellings of ISO 8601 too. RFC 3339 has exactly one shape.
    let bytes = text.as_bytes();
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !separators
        .iter()
        .all(|(separator, byte)| bytes.get(*separator).is_some_and(|found| found.eq_ignore_ascii_case(byte)))
    {
        return None;
    }
    let rest = text.get(19..)?;
    let (fraction, zone) = rest.split_at_checked(rest.find(['Z', 'z', '+', '-'])?)?;
    let digits = match fraction.strip_prefix('.') {
        Some(digits) if !digits.is_empty() => digits,
        None if fraction.is_empty() => "",
        _ => return None,
    };
    if digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // jiff reads a leap second as the second before it; protobuf has no leap seconds.
    let local: DateTime = text.get(..19).filter(|text| !text.ends_with("60"))?.parse().ok()?;
    let seconds = local.duration_since(EPOCH).as_secs() - offset(zone)?;
    let nanos = format!("{digits:0<9}").parse().ok()?;
    TIMESTAMP_SECONDS.contains(&seconds).then_some((seconds, nanos))
}

/// 1970 in UTC. Instants are counted from here as dates and times of UTC, since jiff's own instants end a day before
/// the end of the year 9999.
pub(crate) const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// A zone's seconds east of Greenwich, from `Z` or `+01:00`.
fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, rest) = zone.split_at_checked(1)?;
    let (hours, minutes) = rest.split_once(':')?;
    let number = |text: &str, below: i64| {
        let two_digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|value: &i64| two_digits && *value < below)
    };
    let seconds = number(hours, 24)? * 3600 + number(minutes, 60)? * 60;
    Some(if sign == "-" { -seconds } else { seconds })
}

/// Seconds and nanoseconds, both of one sign, from `1.5s` as in proto3's JSON and `1h30m`, `-250ms` as in Go. Exact:
/// digits below nanoseconds are rejected.
pub(crate) fn parse_duration(text: &str) -> Option<(i64, i32)> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some((0, 0));
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, after) = rest.split_at_checked(number_end)?;
        let unit_end = after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(unit_end)?;
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() > 15
            || fraction.len() > 18
            || (whole.is_empty() && fraction.is_empty())
            || fraction.contains('.')
        {
            return None;
        }
        let parse = |digits: &str| if digits.is_empty() { Some(0_i128) } else { digits.parse().ok() };
        let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let fraction = parse(fraction)? * unit;
        if fraction % scale != 0 {
            return None;
        }
        total += parse(whole)? * unit + fraction / scale;
        rest = after;
    }
    let total = if negative { -total } else { total };
    if total.abs() > i128::from(DURATION_SECONDS) * 1_000_000_000 {
        return None;
    }
    Some((i64::try_from(total / 1_000_000_000).ok()?, i32::try_from(total % 1_000_000_000).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_rfc_3339() {
        assert_eq!(parse_timestamp("1970-01-01T00:00:00Z"), Some((0, 0)));
        assert_eq!(parse_timestamp("1970-01-01T01:00:00.5+01:00"), Some((0, 500_000_000)));
        assert_eq!(parse_timestamp("1969-12-31T23:59:59.999999999Z"), Some((-1, 999_999_999)));
        assert_eq!(parse_timestamp("0001-01-01T00:00:00Z"), Some((-62_135_596_800, 0)));
        assert_eq!(parse_timestamp("9999-12-31T23:59:59.999999999z"), Some((253_402_300_799, 999_999_999)));
        for text in [
            "",
            "2024",
            "2024-06-01",
            "2024-06-01T12:00:00",
            "2024-06-01 12:00:00Z",
            "2024-06-01T12:00Z",
            "2024-13-01T12:00:00Z",
            "2024-02-30T12:00:00Z",
            "2024-06-01T25:00:00Z",
            "2024-06-01T12:00:00.Z",
            "2024-06-01T12:00:00.1234567891Z",
            "2024-06-01T12:00:00+0100",
            "2024-06-01T12:00:00Z[UTC]",
            "0001-01-01T00:00:00+01:00",
            "+12024-06-01T12:00:00Z",
        ] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }

    #[test]
    fn durations_are_seconds_or_go_units_and_exact() {
        for (text, seconds, nanos) in [
            ("0", 0, 0),
            ("1.5s", 1, 500_000_000),
            ("-0.000000001s", 0, -1),
            ("1h30m", 5400, 0),
            ("-1m0.5s", -60, -500_000_000),
            ("250ms", 0, 250_000_000),
            ("1.5us", 0, 1_500),
            ("3µs", 0, 3_000),
            ("315576000000s", 315_576_000_000, 0),
        ] {
            assert_eq!(parse_duration(text), Some((seconds, nanos)), "{text}");
        }
        for text in ["", "-", "1", "s", "1d", "1.2.3s", "1 s", "0.0000000001s", "315576000001s", "1e3s", ".s", "٣s"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
