//! Hash of a set of keys and versions: compares two sets without holding either.
//!
//! The hash is the sum, modulo 2¹²⁸, of the first 16 bytes of SHA-256 over version (8 bytes, big-endian) and key of
//! each member: adding and removing need no order and no look at other members, and take some 200 ns each.

use std::{fmt, str::FromStr};

use sha2::{Digest as _, Sha256};

/// Hexadecimal digits of a hash as text.
const DIGITS: usize = 32;

/// The hash of a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetHash(u128);

/// Change of a set by one member: the key of a resource with its version, or that of an index entry with 0.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// The member is added.
    Add,
    /// The member is removed.
    Remove,
}

impl Step {
    /// Returns the opposite step.
    pub(crate) fn inverse(self) -> Self {
        match self {
            Self::Add => Self::Remove,
            Self::Remove => Self::Add,
        }
    }
}

impl fmt::Display for SetHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A text that is not the hash of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the hash of a set has exactly {DIGITS} hexadecimal digits")]
pub struct SetHashError;

impl FromStr for SetHash {
    type Err = SetHashError;

    /// Parses 32 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, SetHashError> {
        if text.len() != DIGITS || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(SetHashError);
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| SetHashError)
    }
}

impl SetHash {
    /// Adds a member.
    pub fn add(&mut self, key: &[u8], version: u64) {
        self.step(Step::Add, key, version);
    }

    /// Adds or removes a member.
    pub(crate) fn step(&mut self, step: Step, key: &[u8], version: u64) {
        let digest = Sha256::new().chain_update(version.to_be_bytes()).chain_update(key).finalize();
        let member = digest.first_chunk::<16>().map_or(0, |bytes| u128::from_be_bytes(*bytes));
        self.0 = match step {
            Step::Add => self.0.wrapping_add(member),
            Step::Remove => self.0.wrapping_sub(member),
        };
    }

    /// Returns the hash of both sets together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    /// Returns the upper and the lower 64 bits.
    pub(crate) fn halves(self) -> [u64; 2] {
        [(self.0 >> 64) as u64, self.0 as u64]
    }

    /// Makes a hash of the upper and the lower 64 bits.
    pub(crate) fn from_halves(high: u64, low: u64) -> Self {
        Self(u128::from(high) << 64 | u128::from(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_hash_has_exactly_32_digits() {
        let hash = SetHash::from_halves(1, u64::MAX);
        assert_eq!(hash.to_string().parse(), Ok(hash));
        for text in ["", "1", "+0000000000000000000000000000001", "+00000000000000000000000000000001", &"0".repeat(33)]
        {
            assert_eq!(text.parse::<SetHash>(), Err(SetHashError), "{text}");
        }
    }
}
