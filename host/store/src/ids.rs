//! Parts of ids by which the store finds resources.

use std::fmt;

use mortise_resource::{IdRef, pb};

/// Identity of a type in the store: v1 and v2 of a kind share one slot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeKey {
    /// The type's group.
    pub group: String,
    /// The type's kind.
    pub kind: String,
}

impl From<&pb::Type> for TypeKey {
    fn from(t: &pb::Type) -> Self {
        Self { group: t.group.clone(), kind: t.kind.clone() }
    }
}

impl fmt::Display for TypeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.group, self.kind)
    }
}

/// A place among the resources of a type, in the order of lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListKey {
    /// The partition; empty for types without one.
    pub partition: String,
    /// The namespace; empty for types without one.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The id of an expectation, in the parts that a store looks up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedId {
    /// The type.
    pub type_key: TypeKey,
    /// Partition; no wildcard.
    pub partition: String,
    /// Namespace; no wildcard.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// Required incarnation; empty for any.
    pub uid: String,
}

impl From<IdRef<'_>> for ExpectedId {
    fn from(id: IdRef<'_>) -> Self {
        Self {
            type_key: TypeKey { group: id.group.to_owned(), kind: id.kind.to_owned() },
            partition: id.partition.to_owned(),
            namespace: id.namespace.to_owned(),
            name: id.name.to_owned(),
            uid: id.uid.to_owned(),
        }
    }
}

impl From<&pb::Id> for ExpectedId {
    fn from(id: &pb::Id) -> Self {
        Self::from(IdRef::from(id))
    }
}
