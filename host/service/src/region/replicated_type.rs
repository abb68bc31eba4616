//! A kind of resources that is replicated from a peer.

use mortise_resource::pb;

/// A kind whose resources are replicated from a peer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReplicatedType {
    pub(super) peer: String,
    pub(crate) group: String,
    pub(crate) kind: String,
}

impl ReplicatedType {
    pub(super) fn new(peer: &str, followed_type: &pb::Type) -> Self {
        Self { peer: peer.to_owned(), group: followed_type.group.clone(), kind: followed_type.kind.clone() }
    }
}
