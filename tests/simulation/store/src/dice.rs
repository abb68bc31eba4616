//! Choices of a course, which follow from its seed.

use shuttle::rand::{Rng as _, thread_rng};

/// Returns a number below `limit`.
pub(crate) fn below(limit: usize) -> usize {
    thread_rng().gen_range(0..limit)
}

/// Returns whether the chance of one in `n` comes.
pub(crate) fn one_in(n: usize) -> bool {
    below(n) == 0
}
