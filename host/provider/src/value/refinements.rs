//! What is known of a value that is not known yet.

use super::Number;

/// What is known of it. Nothing, by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refinements {
    /// Whether it is null.
    pub is_null: Option<bool>,
    /// What a text begins with.
    pub prefix: Option<String>,
    /// The least that a number may be, and whether it may be that.
    pub lower: Option<(Number, bool)>,
    /// The most, likewise.
    pub upper: Option<(Number, bool)>,
    /// The fewest elements of a collection.
    pub min_length: Option<u64>,
    /// The most.
    pub max_length: Option<u64>,
}

impl Refinements {
    /// It will not be null.
    #[must_use]
    pub fn not_null() -> Self {
        Self { is_null: Some(false), ..Self::default() }
    }
}
