//! Numbers in filters: JSON's syntax, read exactly.

use winnow::{
    ModalResult, Parser as _,
    ascii::digit1,
    combinator::{alt, opt, preceded},
    token::{one_of, take_while},
};

/// Most decimal digits of an integer in protobuf.
const MAX_INTEGER_DIGITS: usize = 20;

/// Reasons why a text is not a number of the field's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadNumber {
    /// JSON has no such number.
    Syntax,
    /// It has a fraction.
    Fraction,
    /// It is too large or too small.
    Range,
}

impl BadNumber {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Syntax => "it is not a number; write it as in JSON, such as -1, 0.5 or 1e6",
            Self::Fraction => "it has a fraction",
            Self::Range => "it is out of range",
        }
    }
}

struct Parts<'t> {
    is_negative: bool,
    whole: &'t str,
    fraction: &'t str,
    exponent: i64,
}

fn parts<'t>(input: &mut &'t str) -> ModalResult<Parts<'t>> {
    let is_negative = opt('-').parse_next(input)?.is_some();
    let whole = alt(("0", (one_of('1'..='9'), take_while(0.., '0'..='9')).take())).parse_next(input)?;
    let fraction = opt(preceded('.', digit1)).parse_next(input)?.unwrap_or("");
    let exponent = opt(preceded(one_of(['e', 'E']), (opt(one_of(['+', '-'])), digit1))).parse_next(input)?;
    let exponent = exponent.map_or(0, |(sign, digits): (Option<char>, &str)| {
        // Exponents beyond every range are all alike.
        let size: i64 = digits
            .trim_start_matches('0')
            .parse()
            .unwrap_or(if digits.trim_start_matches('0').is_empty() { 0 } else { i64::from(i32::MAX) });
        if sign == Some('-') { -size } else { size }
    });
    Ok(Parts { is_negative, whole, fraction, exponent })
}

/// Reads an integer, exactly; a fraction of zeros and an exponent are fine.
pub(crate) fn integer(text: &str) -> Result<i128, BadNumber> {
    let Parts { is_negative, whole, fraction, exponent } = parts.parse(text).map_err(|_| BadNumber::Syntax)?;
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Ok(0);
    }
    let shift = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let zeros = exponent.saturating_sub(shift(fraction.len())).saturating_add(shift(digits.len() - significant.len()));
    let zeros = match usize::try_from(zeros) {
        Ok(zeros) if zeros.saturating_add(significant.len()) <= MAX_INTEGER_DIGITS => zeros,
        Ok(_) => return Err(BadNumber::Range),
        Err(_) => return Err(BadNumber::Fraction),
    };
    let sign = if is_negative { "-" } else { "" };
    format!("{sign}{significant}{}", "0".repeat(zeros)).parse().map_err(|_| BadNumber::Range)
}

/// Reads a float; of 32 bits if `single`, widened.
pub(crate) fn float(text: &str, single: bool) -> Result<f64, BadNumber> {
    parts.parse(text).map_err(|_| BadNumber::Syntax)?;
    let value = match single {
        true => text.parse::<f32>().map(f64::from),
        false => text.parse::<f64>(),
    };
    value.ok().filter(|value| value.is_finite()).ok_or(BadNumber::Range)
}

/// Whether JSON has the number.
pub(crate) fn is_number(text: &str) -> bool {
    parts.parse(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact() {
        let rows = [
            ("0", Ok(0)),
            ("-0", Ok(0)),
            ("9007199254740993", Ok(9_007_199_254_740_993)),
            ("18446744073709551615", Ok(u64::MAX.into())),
            ("-9223372036854775808", Ok(i64::MIN.into())),
            ("1.0", Ok(1)),
            ("1.50e1", Ok(15)),
            ("1E+5", Ok(100_000)),
            ("1200e-2", Ok(12)),
            ("0e999999999999999999999", Ok(0)),
            ("0.000", Ok(0)),
            ("1.5", Err(BadNumber::Fraction)),
            ("1e-1", Err(BadNumber::Fraction)),
            ("1e-99999999999999999999", Err(BadNumber::Fraction)),
            ("1e99999999999999999999", Err(BadNumber::Range)),
            ("1e21", Err(BadNumber::Range)),
            ("+1", Err(BadNumber::Syntax)),
            (".5", Err(BadNumber::Syntax)),
            ("5.", Err(BadNumber::Syntax)),
            ("1..2", Err(BadNumber::Syntax)),
            ("007", Err(BadNumber::Syntax)),
            ("-", Err(BadNumber::Syntax)),
            ("", Err(BadNumber::Syntax)),
        ];
        for (text, expected) in rows {
            assert_eq!(integer(text), expected, "{text}");
        }
        assert_eq!(integer(&"9".repeat(60_000)), Err(BadNumber::Range));
    }

    #[test]
    fn floats_are_of_the_fields_width() {
        assert_eq!(float("0.1", false), Ok(0.1));
        assert_eq!(float("0.1", true), Ok(f64::from(0.1_f32)));
        assert_eq!(float("1e39", true), Err(BadNumber::Range));
        assert_eq!(float("1e999", false), Err(BadNumber::Range));
        assert_eq!(float("NaN", false), Err(BadNumber::Syntax));
    }
}
