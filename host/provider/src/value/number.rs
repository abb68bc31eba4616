//! Numbers: decimal, exact, of any size within a bound.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use bigdecimal::{BigDecimal, ToPrimitive as _, Zero as _, num_bigint::ToBigInt as _};

/// Most digits of a number, before and after the point.
pub const MAX_DIGITS: usize = 4_096;

/// A decimal number. Equal numbers are equal in every spelling; so `-0` equals `0`, but keeps its sign.
#[derive(Debug, Clone)]
pub struct Number {
    decimal: BigDecimal,
    is_negative_zero: bool,
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.decimal == other.decimal
    }
}

impl Eq for Number {}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        self.decimal.cmp(&other.decimal)
    }
}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.decimal.hash(state);
    }
}

/// The text is not a decimal number, or has more than [`MAX_DIGITS`] digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not a decimal number of at most {MAX_DIGITS} digits")]
pub struct NumberError;

impl Number {
    /// Number of its decimal digits, trailing zeros of large numbers left out.
    #[must_use]
    pub fn digits(&self) -> usize {
        usize::try_from(self.decimal.digits()).unwrap_or(usize::MAX)
    }

    /// Converts a 64-bit float by its shortest decimal text; `None` for NaN and infinities. A subnormal one is
    /// converted exactly: core counts its digits as if it had the precision of larger ones, and finds another shortest
    /// text.
    #[must_use]
    pub fn from_f64(number: f64) -> Option<Self> {
        if number.is_subnormal() {
            let decimal = BigDecimal::try_from(number).ok()?.normalized();
            return Some(Self { decimal, is_negative_zero: false });
        }
        if number.is_finite() { number.to_string().parse().ok() } else { None }
    }

    /// Converts a 32-bit float by its shortest decimal text; `None` for NaN and infinities.
    #[must_use]
    pub fn from_f32(number: f32) -> Option<Self> {
        if number.is_finite() { number.to_string().parse().ok() } else { None }
    }

    /// Converts to a signed 64-bit integer, if the number is whole and fits. `-0` gives 0.
    #[must_use]
    pub fn to_i64(&self) -> Option<i64> {
        if self.decimal.is_integer() { self.decimal.to_bigint()?.to_i64() } else { None }
    }

    /// Converts to an unsigned 64-bit integer, if the number is whole and fits. `-0` gives 0.
    #[must_use]
    pub fn to_u64(&self) -> Option<u64> {
        if self.decimal.is_integer() { self.decimal.to_bigint()?.to_u64() } else { None }
    }

    /// Whether it is `-0`, which no integer can express.
    #[must_use]
    pub fn is_negative_zero(&self) -> bool {
        self.is_negative_zero
    }

    /// Converts to a 64-bit float, if [`Self::from_f64`] makes this number of it.
    #[must_use]
    pub fn to_f64(&self) -> Option<f64> {
        let float = self.nearest_f64();
        (Self::from_f64(float).as_ref() == Some(self)).then_some(float)
    }

    /// Converts to the nearest 64-bit float; infinite beyond its range.
    #[must_use]
    pub fn nearest_f64(&self) -> f64 {
        let nearest = self.decimal.to_string().parse().unwrap_or(f64::NAN);
        if self.is_negative_zero { -nearest } else { nearest }
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Self { decimal: BigDecimal::from(number).normalized(), is_negative_zero: false }
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self { decimal: BigDecimal::from(number).normalized(), is_negative_zero: false }
    }
}

impl FromStr for Number {
    type Err = NumberError;

    /// Reads a decimal with or without a point and an exponent.
    fn from_str(text: &str) -> Result<Self, NumberError> {
        // A large exponent makes a long number of a short text.
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i64 = exponent.parse().map_err(|_| NumberError)?;
        let is_part = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'+' | b'-');
        let bound = i64::try_from(MAX_DIGITS).unwrap_or(i64::MAX);
        if mantissa.len() > MAX_DIGITS || !(-bound..=bound).contains(&exponent) || !mantissa.bytes().all(is_part) {
            return Err(NumberError);
        }
        let decimal = BigDecimal::from_str(text).map_err(|_| NumberError)?.normalized();
        let (_, scale) = decimal.as_bigint_and_exponent();
        // The scale bounds the digits; zero has no scale.
        let is_negative_zero = decimal.is_zero() && text.starts_with('-');
        if scale.abs() > bound { Err(NumberError) } else { Ok(Self { decimal, is_negative_zero }) }
    }
}

impl fmt::Display for Number {
    /// Writes the number without an exponent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_negative_zero { "-" } else { "" })?;
        f.write_str(&self.decimal.to_plain_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        text.parse().unwrap()
    }

    #[test]
    fn numbers_are_equal_by_value_and_printed_without_an_exponent() {
        for (text, plain) in [
            ("3.0", "3"),
            ("300", "300"),
            ("3e2", "300"),
            ("1.50", "1.5"),
            ("-0.10", "-0.1"),
            ("1e-3", "0.001"),
            ("0", "0"),
            ("-0.0", "-0"),
            ("9223372036854775808", "9223372036854775808"),
        ] {
            assert_eq!(number(text).to_string(), plain);
            assert_eq!(number(text), number(plain));
        }
        assert_eq!(number("-0"), number("0"));
        let large = format!("1{}", "0".repeat(400));
        assert_eq!(number("1e400").to_string(), large);
    }

    #[test]
    fn whole_numbers_and_floats_are_exact_or_none() {
        assert_eq!(number("9223372036854775807").to_i64(), Some(i64::MAX));
        assert_eq!(number("9223372036854775808").to_i64(), None);
        assert_eq!(number("18446744073709551615").to_u64(), Some(u64::MAX));
        assert_eq!(number("-1").to_u64(), None);
        assert_eq!((number("0.5").to_i64(), number("3.0").to_i64()), (None, Some(3)));
        assert_eq!(number("0.1").to_f64(), Some(0.1));
        assert_eq!(number("0.1000000000000000000001").to_f64(), None);
        assert_eq!(number("1e400").to_f64(), None);
        // Core's shortest text of a subnormal float is not this one.
        let tiny = number("5e-324");
        assert_eq!((tiny.to_f64(), tiny.nearest_f64().to_bits()), (None, 1));
        assert_eq!(Number::from_f64(f64::from_bits(1)).unwrap().to_f64(), Some(f64::from_bits(1)));
        let zero = number("-0e3");
        assert_eq!((zero.to_i64(), zero.to_u64(), zero.is_negative_zero()), (Some(0), Some(0), true));
        assert!(zero.to_f64().unwrap().is_sign_negative() && !number("0").nearest_f64().is_sign_negative());
        assert_eq!(Number::from_f32(-0.0).unwrap().to_string(), "-0");
        assert_eq!(Number::from_f32(0.1), Some(number("0.1")));
        assert_eq!(Number::from_f64(f64::from(0.1_f32)), Some(number("0.10000000149011612")));
        assert_eq!((Number::from_f64(f64::NAN), Number::from_f32(f32::INFINITY)), (None, None));
    }

    #[test]
    fn what_is_no_number_or_too_long_is_refused() {
        let long = "9".repeat(MAX_DIGITS + 1);
        for wrong in
            ["", "x", "NaN", "inf", "1e", "e1", "1e9999999999", "1e5000", "1e-5000", "0x10", "1_000", " 1", &long]
        {
            assert!(wrong.parse::<Number>().is_err(), "{wrong}");
        }
        assert!("9".repeat(MAX_DIGITS).parse::<Number>().is_ok());
    }
}
