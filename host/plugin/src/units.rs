//! Sizes and times of the configuration, with units: `"256MiB"`, `"30s"`. A bare number counts the smallest unit.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The units of one kind of number.
#[derive(Debug, PartialEq, Eq)]
pub struct Units {
    /// The kind, for errors.
    kind: &'static str,
    /// Correct ways to write a number of this kind, for errors.
    advice: &'static str,
    /// Names with the number of smallest units in each, largest first.
    names: &'static [(&'static str, u64)],
    /// Further names that are read and never printed.
    others: &'static [(&'static str, u64)],
}

/// Plain counts, without units.
pub const COUNT: Units = Units { kind: "whole number", advice: "digits alone", names: &[], others: &[] };

/// Sizes, in bytes.
pub const BYTES: Units = Units {
    kind: "size",
    advice: "a number of bytes or a number with B, KiB, MiB, GiB or TiB",
    names: &[("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)],
    others: &[("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000), ("kB", 1_000)],
};

/// Times, in milliseconds.
pub const MILLISECONDS: Units = Units {
    kind: "time",
    advice: "a number of milliseconds or a number with ms, s, m or h",
    names: &[("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)],
    others: &[],
};

/// Times in whole seconds.
pub const SECONDS: Units = Units {
    kind: "time in whole seconds",
    advice: "a number of seconds or a number with s, m or h",
    names: &[("h", 3_600), ("m", 60), ("s", 1)],
    others: &[],
};

/// A text that is not a number of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {}; write {}", units.kind, units.advice)]
pub struct NotANumber {
    text: String,
    units: &'static Units,
}

impl Units {
    /// The number that the text means, in the smallest unit.
    ///
    /// # Errors
    /// The text is not an integer with a name of these units, or without one.
    pub fn read(&'static self, text: &str) -> Result<i128, NotANumber> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
        let (number, name) = text.split_at(end);
        let factor = match name.trim_start() {
            "" => Some(1),
            name => self.names.iter().chain(self.others).find(|(known, _)| *known == name).map(|(_, factor)| *factor),
        };
        let read = || number.parse::<i128>().ok()?.checked_mul(factor?.into());
        read().ok_or_else(|| NotANumber { text: text.to_owned(), units: self })
    }

    /// The number as text, in the largest unit that divides it.
    #[must_use]
    pub fn text(&self, number: u64) -> String {
        let unit = self.names.iter().find(|(_, factor)| number > 0 && number.is_multiple_of(*factor));
        unit.map_or_else(|| number.to_string(), |(name, factor)| format!("{}{name}", number / factor))
    }
}

/// Reads a number from the configuration.
struct NumberVisitor(&'static Units);

impl de::Visitor<'_> for NumberVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}: {}", self.0.kind, self.0.advice)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<u64, E> {
        u64::try_from(number).map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        let number = self.0.read(text).map_err(E::custom)?;
        u64::try_from(number).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

macro_rules! number {
    ($(#[$doc:meta])+ $name:ident in $units:ident) => {
        $(#[$doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name(pub u64);

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self.0 {
                    0 => to.serialize_u64(0),
                    number => to.serialize_str(&$units.text(number)),
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(NumberVisitor(&$units)).map(Self)
            }
        }
    };
}

number! {
    /// A size in bytes.
    Size in BYTES
}

number! {
    /// A time in milliseconds.
    Millis in MILLISECONDS
}

number! {
    /// A time in seconds.
    Seconds in SECONDS
}

impl Size {
    /// The number of bytes for memory; less than in the configuration where a pointer has 32 bits.
    #[must_use]
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl From<usize> for Size {
    fn from(bytes: usize) -> Self {
        Self(bytes as u64)
    }
}

impl From<Millis> for Duration {
    fn from(time: Millis) -> Self {
        Self::from_millis(time.0)
    }
}

impl From<Duration> for Millis {
    fn from(time: Duration) -> Self {
        Self(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_and_without_units() {
        for (units, text, number) in [
            (&BYTES, "268435456", 256 << 20),
            (&BYTES, "256MiB", 256 << 20),
            (&BYTES, "256 MiB", 256 << 20),
            (&BYTES, "1000B", 1_000),
            (&BYTES, "1GB", 1_000_000_000),
            (&BYTES, "64 kB", 64_000),
            (&MILLISECONDS, "30", 30),
            (&MILLISECONDS, "30s", 30_000),
            (&MILLISECONDS, "1m", 60_000),
            (&MILLISECONDS, "-1s", -1_000),
            (&SECONDS, "1m", 60),
            (&SECONDS, "24h", 86_400),
            (&COUNT, "7", 7),
        ] {
            assert_eq!(units.read(text), Ok(number), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_number_is_refused_with_advice() {
        for (units, text, kind, advice) in [
            (&BYTES, "1 Mb", "size", "a number of bytes or a number with B, KiB, MiB, GiB or TiB"),
            (&BYTES, "1.5GiB", "size", "a number of bytes or a number with B, KiB, MiB, GiB or TiB"),
            (&BYTES, "", "size", "a number of bytes or a number with B, KiB, MiB, GiB or TiB"),
            (
                &BYTES,
                "99999999999999999999999999999TiB",
                "size",
                "a number of bytes or a number with B, KiB, MiB, GiB or TiB",
            ),
            (&MILLISECONDS, "MiB", "time", "a number of milliseconds or a number with ms, s, m or h"),
            (&SECONDS, "5ms", "time in whole seconds", "a number of seconds or a number with s, m or h"),
            (&COUNT, "5s", "whole number", "digits alone"),
        ] {
            let fault = units.read(text).unwrap_err().to_string();
            assert_eq!(fault, format!("{text:?} is not a {kind}; write {advice}"));
        }
    }

    #[test]
    fn the_advice_names_every_unit() {
        for units in [&BYTES, &MILLISECONDS, &SECONDS] {
            let words: Vec<&str> = units.advice.split([' ', ',']).collect();
            for (name, _) in units.names {
                assert!(words.contains(name), "{name}: {}", units.advice);
            }
        }
    }

    #[test]
    fn the_text_of_a_number_is_exact_and_short() {
        for (units, number, text) in [
            (&BYTES, 0, "0"),
            (&BYTES, 1_000, "1000B"),
            (&BYTES, 1 << 20, "1MiB"),
            (&BYTES, 3 << 39, "1536GiB"),
            (&MILLISECONDS, 1_500, "1500ms"),
            (&MILLISECONDS, 90_000, "90s"),
            (&MILLISECONDS, 86_400_000, "24h"),
            (&COUNT, 10_000, "10000"),
        ] {
            assert_eq!(units.text(number), text);
            assert_eq!(units.read(text), Ok(number.into()), "{text}");
        }
    }
}
