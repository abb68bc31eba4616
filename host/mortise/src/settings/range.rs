//! Allowed values of a setting that is a number.
//!
//! Ranges are wide: smaller numbers could not serve, and larger ones are typing errors or more than machines have.

use std::fmt;

use mortise_plugin_host::units::{self, Units};

/// The allowed numbers of a setting, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) least: i64,
    pub(crate) most: i64,
    /// Whether zero is allowed as well, with a meaning of its own.
    pub(crate) or_zero: bool,
    /// The units in which the setting can be written.
    pub(crate) units: &'static Units,
}

impl Range {
    /// A count from `least` to `most`.
    pub(crate) const fn new(least: i64, most: i64) -> Self {
        Self { least, most, or_zero: false, units: &units::COUNT }
    }

    /// A size from `least` to `most` bytes.
    pub(crate) const fn bytes(least: i64, most: i64) -> Self {
        Self { units: &units::BYTES, ..Self::new(least, most) }
    }

    /// A time from `least` to `most` milliseconds.
    pub(crate) const fn milliseconds(least: i64, most: i64) -> Self {
        Self { units: &units::MILLISECONDS, ..Self::new(least, most) }
    }

    /// A time from `least` to `most` seconds.
    pub(crate) const fn seconds(least: i64, most: i64) -> Self {
        Self { units: &units::SECONDS, ..Self::new(least, most) }
    }

    /// The same range with zero.
    pub(crate) const fn or_zero(self) -> Self {
        Self { or_zero: true, ..self }
    }

    /// The number, if it is in the range. The key of the setting is for the error.
    pub(crate) fn check(self, key: &str, number: i128) -> Result<i64, RangeError> {
        let in_range = |number: &i64| (self.or_zero && *number == 0) || (self.least..=self.most).contains(number);
        let fault = || RangeError::Outside { key: key.to_owned(), range: self, number: self.text(number) };
        i64::try_from(number).ok().filter(in_range).ok_or_else(fault)
    }

    /// The number that the text means, if it is in the range.
    pub(crate) fn read(self, key: &str, text: &str) -> Result<i64, RangeError> {
        let number = self.units.read(text).map_err(|source| RangeError::NotANumber { key: key.to_owned(), source })?;
        self.check(key, number)
    }

    fn text(self, number: impl TryInto<u64> + fmt::Display + Copy) -> String {
        number.try_into().map_or_else(|_| number.to_string(), |number| self.units.text(number))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.or_zero { "0, or " } else { "" })?;
        write!(f, "{} to {}", self.text(self.least), self.text(self.most))
    }
}

/// A setting without an allowed number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RangeError {
    #[error("{key} must be {range}, got {number}")]
    Outside { key: String, range: Range, number: String },
    #[error("{key}: {source}")]
    NotANumber { key: String, source: units::NotANumber },
}
