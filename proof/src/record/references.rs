//! References between resources of the kinds [`NODE`] and [`DRAFT`].

use serde::{Deserialize, Serialize};

use super::state::Key;

/// Kind of resources that others refer to.
pub const NODE: &str = "Node";
/// Kind of resources that refer to nodes, and become nodes by a move.
pub const DRAFT: &str = "Draft";

/// Effect of a deletion on a resource that refers to the deleted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum OnDelete {
    /// Refuses the deletion.
    Block,
    /// Clears the reference in the same commit.
    Unset,
    /// Deletes the resource in the same commit.
    Cascade,
    /// Clears the reference while the target is marked.
    LaterUnset,
    /// Deletes the resource while the target is marked.
    LaterCascade,
}

impl OnDelete {
    /// Tells whether the deletion of the target deletes the resource, too.
    #[must_use]
    pub fn cascades(self) -> bool {
        matches!(self, Self::Cascade | Self::LaterCascade)
    }
}

/// A reference in the data of a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Reference {
    /// Effect of the target's deletion.
    pub on_delete: OnDelete,
    /// Target.
    pub target: Key,
}

/// Tells whether resources of a kind may refer to others.
#[must_use]
pub fn refers(kind: &str) -> bool {
    matches!(kind, NODE | DRAFT)
}
