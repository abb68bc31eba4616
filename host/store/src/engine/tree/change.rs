//! One change of a resource, as the history, counts and watchers take it.

use mortise_resource::EncodedResource;

use crate::TypeKey;

/// One step: what a resource was and became.
pub(crate) struct Change {
    /// The resource's key.
    pub(crate) key: Vec<u8>,
    /// The resource's type.
    pub(crate) type_key: TypeKey,
    /// The sequence of this change; of one that is no event, that of the resource's last change.
    pub(crate) seq: u64,
    /// Whether watchers and the history hear of it: all but a rewrite.
    pub(crate) is_event: bool,
    /// What it was, `None` before a creation.
    pub(crate) prior: Option<EncodedResource>,
    /// What it is, `None` after a deletion.
    pub(crate) now: Option<EncodedResource>,
}

impl Change {
    /// The encoding of what the event carries: `now`, or `prior` of a deletion.
    pub(crate) fn payload(&self) -> &[u8] {
        self.now.as_ref().or(self.prior.as_ref()).map_or(&[], |resource| resource.bytes())
    }
}
