//! What a walk over a whole store can find wrong.

use std::fmt;

/// Something that does not agree with something else, or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What it is about, such as `resource demo/Artist/default/default/korn`.
    pub thing: String,
    /// What is wrong with it.
    pub fault: String,
}

/// What the check of a store that no server has open found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The store's format.
    pub format: u32,
    /// The last commit.
    pub sequence: u64,
    /// The oldest event; `sequence + 1` when there is none.
    pub first_event: u64,
    /// How many events there are.
    pub events: u64,
    /// Bytes of the store's files.
    pub bytes: u64,
    /// What is wrong; nothing when all is well.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.thing, self.fault)
    }
}
