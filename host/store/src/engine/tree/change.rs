//! A change of a resource, for the history, the counts and the watchers.

use mortise_resource::EncodedResource;

use crate::TypeKey;

/// A change of one resource: its states before and after.
pub(crate) struct Change {
    /// Key of the resource.
    pub(crate) key: Vec<u8>,
    /// Type of the resource.
    pub(crate) type_key: TypeKey,
    /// Sequence of this change; for a rewrite, that of the resource's last change.
    pub(crate) seq: u64,
    /// Number of the batch, the same in each of its changes and in no other's of the group.
    pub(crate) commit: u64,
    /// Whether the change is an event for watchers and the history: all but rewrites are.
    pub(crate) is_event: bool,
    /// State before; `None` for a creation.
    pub(crate) prior: Option<EncodedResource>,
    /// State after; `None` for a deletion.
    pub(crate) now: Option<EncodedResource>,
}

impl Change {
    /// Returns the encoded resource of the event: the state after it, or before a deletion.
    pub(crate) fn payload(&self) -> &[u8] {
        self.now.as_ref().or(self.prior.as_ref()).map_or(&[], |resource| resource.bytes())
    }
}
