//! The sums over all types, as the counters hold them.

use crate::set_hash::SetHash;

/// What the counters hold: the hashes of all resources and of the indexes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Of all resources.
    pub(crate) resources: SetHash,
    /// Of the indexes of owners, labels and references.
    pub(crate) indexes: SetHash,
}

impl Totals {
    /// As the counters hold them.
    pub(crate) fn numbers(self) -> [u64; 4] {
        let ([a, b], [c, d]) = (self.resources.halves(), self.indexes.halves());
        [a, b, c, d]
    }

    /// From the counters.
    pub(crate) fn of_numbers([a, b, c, d]: [u64; 4]) -> Self {
        Self { resources: SetHash::of_halves(a, b), indexes: SetHash::of_halves(c, d) }
    }
}
