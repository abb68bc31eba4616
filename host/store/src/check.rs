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

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.thing, self.fault)
    }
}
