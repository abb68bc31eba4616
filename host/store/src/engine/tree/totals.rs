//! The sums over all types, as the counters hold them.

use crate::set_hash::SetHash;

/// What the counters hold: the hashes of all resources and of the owner index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Of all resources.
    pub(crate) resources: SetHash,
    /// Of the owner index.
    pub(crate) owners: SetHash,
}

impl Totals {
    /// As the counters hold them.
    pub(crate) fn numbers(self) -> [u64; 4] {
        let ([a, b], [c, d]) = (self.resources.halves(), self.owners.halves());
        [a, b, c, d]
    }

    /// From the counters.
    pub(crate) fn of_numbers([a, b, c, d]: [u64; 4]) -> Self {
        Self { resources: SetHash::of_halves(a, b), owners: SetHash::of_halves(c, d) }
    }
}
