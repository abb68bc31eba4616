//! What a setting that is a whole number may be.
//!
//! Ranges are wide: below them nothing could be served, above them are typing errors, and what no machine has.

use std::fmt;

/// What a whole number may be, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) least: i64,
    pub(crate) most: i64,
    /// Zero as well, which has a meaning of its own.
    pub(crate) or_zero: bool,
}

impl Range {
    /// From `least` to `most`.
    pub(crate) const fn new(least: i64, most: i64) -> Self {
        Self { least, most, or_zero: false }
    }

    /// The same, and zero.
    pub(crate) const fn or_zero(self) -> Self {
        Self { or_zero: true, ..self }
    }

    /// Refuses a number that is outside; `key` is the setting's, for the text.
    pub(crate) fn check(self, key: &str, number: i128) -> Result<(), OutOfRange> {
        let holds = (self.or_zero && number == 0) || (self.least.into()..=self.most.into()).contains(&number);
        if holds { Ok(()) } else { Err(OutOfRange { key: key.to_owned(), range: self, number }) }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { least, most, or_zero } = self;
        f.write_str(if *or_zero { "0, or " } else { "" })?;
        write!(f, "{least} to {most}")
    }
}

/// A number outside the range of its setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} must be {range}, got {number}")]
pub(crate) struct OutOfRange {
    pub(crate) key: String,
    pub(crate) range: Range,
    pub(crate) number: i128,
}
