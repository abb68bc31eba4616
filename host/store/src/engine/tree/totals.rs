//! Sums over all types, as stored in the counters.

use crate::set_hash::SetHash;

/// Hashes of all resources and of the indexes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Hash of all resources.
    pub(crate) resources: SetHash,
    /// Hash of the indexes of owners, labels and references.
    pub(crate) indexes: SetHash,
}

impl Totals {
    /// Returns the numbers for the counters.
    pub(crate) fn numbers(self) -> [u64; 4] {
        let ([a, b], [c, d]) = (self.resources.halves(), self.indexes.halves());
        [a, b, c, d]
    }

    /// Makes the totals of the numbers in the counters.
    pub(crate) fn from_numbers([a, b, c, d]: [u64; 4]) -> Self {
        Self { resources: SetHash::from_halves(a, b), indexes: SetHash::from_halves(c, d) }
    }
}
