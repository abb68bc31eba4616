//! Numbers and bytes in texts.

use base64::{
    Engine,
    alphabet::{STANDARD, URL_SAFE},
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Reasons why a literal is not the required number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotNumber {
    /// It is not a number.
    Malformed,
    /// It has a fraction.
    Fraction,
    /// It is too large, or too far below zero.
    Range,
}

/// Reads an integer exactly, from `12`, `-0x1f`, `0o17`, `1.0` or `12e3`; prefixes are YAML's, so only for scalars
/// without quotes.
pub(crate) fn integer(literal: &str, prefixes: bool) -> Result<i128, NotNumber> {
    if prefixes {
        let radix = |digits: &str, radix| match i128::from_str_radix(digits, radix) {
            Ok(value) if !digits.starts_with(['+', '-']) => Ok(value),
            Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => Err(NotNumber::Range),
            _ => Err(NotNumber::Malformed),
        };
        if let Some(digits) = literal.strip_prefix("0x") {
            return radix(digits, 16);
        }
        if let Some(digits) = literal.strip_prefix("0o") {
            return radix(digits, 8);
        }
    }
    let (negative, unsigned) = match literal.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, literal.strip_prefix('+').unwrap_or(literal)),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, self::exponent(exponent)?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return Err(NotNumber::Malformed);
    }
    // The value is digits × 10^shift.
    let digits = format!("{whole}{fraction}");
    let fraction_digits = i64::try_from(fraction.len()).map_err(|_| NotNumber::Range)?;
    let trimmed = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - trimmed.len()).map_err(|_| NotNumber::Range)?;
    let significant = trimmed.trim_start_matches('0');
    if significant.is_empty() {
        return Ok(0);
    }
    let shift = exponent - fraction_digits + zeros;
    if shift < 0 {
        return Err(NotNumber::Fraction);
    }
    // No field takes more than 20 digits.
    let shift = u32::try_from(shift).map_err(|_| NotNumber::Range)?;
    if significant.len() > 30 || shift > 30 {
        return Err(NotNumber::Range);
    }
    let value = significant.parse::<i128>().map_err(|_| NotNumber::Range)?;
    let value = 10_i128.checked_pow(shift).and_then(|scale| value.checked_mul(scale)).ok_or(NotNumber::Range)?;
    Ok(if negative { -value } else { value })
}

/// A decimal exponent, cut to a size beyond which all are alike.
fn exponent(text: &str) -> Result<i64, NotNumber> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NotNumber::Malformed);
    }
    let value = digits.trim_start_matches('0');
    let value = if value.is_empty() { 0 } else { value.parse::<i64>().unwrap_or(i64::MAX).min(1 << 40) };
    Ok(if negative { -value } else { value })
}

/// Reads a floating-point number; `special` allows YAML's `.inf` and `.nan`, and its prefixes.
pub(crate) fn float(literal: &str, special: bool) -> Result<f64, NotNumber> {
    if let Some(value) = not_finite(literal, special) {
        return Ok(value);
    }
    if special && (literal.starts_with("0x") || literal.starts_with("0o")) {
        #[allow(clippy::cast_precision_loss, reason = "a float holds the nearest number")]
        return integer(literal, true).map(|value| value as f64);
    }
    if !literal.bytes().any(|byte| byte.is_ascii_digit()) || literal.bytes().any(|byte| !is_number_byte(byte)) {
        return Err(NotNumber::Malformed);
    }
    let value: f64 = literal.parse().map_err(|_| NotNumber::Malformed)?;
    if value.is_infinite() { Err(NotNumber::Range) } else { Ok(value) }
}

/// Reads a floating-point number as [`float`] does, in single precision; digits are rounded once.
pub(crate) fn float32(literal: &str, special: bool) -> Result<f32, NotNumber> {
    let wide = float(literal, special)?;
    if !wide.is_finite() {
        #[allow(clippy::cast_possible_truncation, reason = "infinities and NaN stay what they are")]
        return Ok(wide as f32);
    }
    #[allow(clippy::cast_possible_truncation, reason = "a literal with YAML's prefix is an integer")]
    let value = literal.parse::<f32>().unwrap_or(wide as f32);
    if value.is_infinite() { Err(NotNumber::Range) } else { Ok(value) }
}

fn is_number_byte(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E')
}

fn not_finite(literal: &str, special: bool) -> Option<f64> {
    match literal {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" if special => Some(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" if special => Some(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" if special => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);

/// Reads base64: the standard alphabet or the one for URLs, padded or not, with white space as in YAML's block scalars.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let compact: String = text.split_ascii_whitespace().collect();
    let alphabet = if compact.contains(['-', '_']) { URL_SAFE } else { STANDARD };
    GeneralPurpose::new(&alphabet, LENIENT).decode(compact).ok()
}

/// Writes base64 as JSON does: the standard alphabet, padded.
pub(crate) fn to_base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_however_they_are_written() {
        assert_eq!(integer("12", false), Ok(12));
        assert_eq!(integer("-0", false), Ok(0));
        assert_eq!(integer("+7", true), Ok(7));
        assert_eq!(integer("1.0", false), Ok(1));
        assert_eq!(integer("1.50e1", false), Ok(15));
        assert_eq!(integer("100e-2", false), Ok(1));
        assert_eq!(integer("9007199254740993.0", false), Ok(9_007_199_254_740_993));
        assert_eq!(integer("18446744073709551615", false), Ok(i128::from(u64::MAX)));
        assert_eq!(integer("0x1F", true), Ok(31));
        assert_eq!(integer("0o17", true), Ok(15));
        assert_eq!(integer("007", true), Ok(7));
        assert_eq!(integer("0e999999999999999999999", false), Ok(0));
        for text in ["", "-", "e1", "1e", "0x1F", "1_000", "12a", "--1", "0x-1", ".", "1.2.3", "١"] {
            assert_eq!(integer(text, false), Err(NotNumber::Malformed), "{text}");
        }
        for text in ["1.5", "1e-1", "0.1", "15e-1", "1e-999999999999999999999999"] {
            assert_eq!(integer(text, false), Err(NotNumber::Fraction), "{text}");
        }
        assert_eq!(integer("1e999999999999999999999999", false), Err(NotNumber::Range));
        assert_eq!(integer(&"9".repeat(50), false), Err(NotNumber::Range));
        assert_eq!(integer(&format!("0x{}", "f".repeat(40)), true), Err(NotNumber::Range));
    }

    #[test]
    fn floats_have_their_range_and_their_names() {
        assert_eq!(float("1e3", false), Ok(1000.0));
        assert_eq!(float(".5", true), Ok(0.5));
        assert_eq!(float("1e400", false), Err(NotNumber::Range));
        assert_eq!(float32("1e39", false), Err(NotNumber::Range));
        assert_eq!(float32("16777217", false), Ok(16_777_216.0));
        assert!(float("NaN", false).is_ok_and(f64::is_nan));
        assert_eq!(float("-Infinity", false), Ok(f64::NEG_INFINITY));
        assert_eq!(float("-.inf", true), Ok(f64::NEG_INFINITY));
        for text in ["inf", "nan", "infinity", ".inf", "", "+", "e", "1e"] {
            assert_eq!(float(text, false), Err(NotNumber::Malformed), "{text}");
        }
    }

    #[test]
    fn base64_is_read_in_every_spelling() {
        for text in ["+/8=", "-_8=", "+/8", "-_8", "+/\n 8="] {
            assert_eq!(from_base64(text), Some(vec![0xfb, 0xff]), "{text}");
        }
        assert_eq!(from_base64("+_8="), None);
        assert_eq!(from_base64("a"), None);
        assert_eq!(from_base64(""), Some(Vec::new()));
        assert_eq!(to_base64(&[0xfb, 0xff]), "+/8=");
    }
}
