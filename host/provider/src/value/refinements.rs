//! Refinements: known facts about an unknown value.

use super::Number;

/// Known facts about an unknown value; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refinements {
    /// Whether it is null.
    pub is_null: Option<bool>,
    /// Start of a string.
    pub prefix: Option<String>,
    /// Lower bound of a number, and whether the bound is allowed.
    pub lower: Option<(Number, bool)>,
    /// Upper bound of a number, and whether the bound is allowed.
    pub upper: Option<(Number, bool)>,
    /// Fewest elements of a collection.
    pub min_length: Option<u64>,
    /// Most elements of a collection.
    pub max_length: Option<u64>,
}
