//! Resources: their names, incarnations and states, and the resources of a list.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::references::Reference;

/// Name of a resource, in the order of lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Kind, such as `Artist`; kinds have different names.
    pub kind: String,
    /// Namespace, such as `a`; `p/a` in another partition than `default`; empty for a namespace or a partition itself.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Kind of partitions.
pub const PARTITION: &str = "Partition";
/// Kind of namespaces.
pub const NAMESPACE: &str = "Namespace";
/// The namespace that always exists.
pub const DEFAULT_NAMESPACE: &str = "default";

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Incarnation of a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation {
    /// Name.
    pub key: Key,
    /// Uid.
    pub uid: String,
}

/// A resource under one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Name.
    pub key: Key,
    /// Uid.
    pub uid: String,
    /// Version.
    pub version: u64,
    /// Generation, a ULID.
    pub generation: String,
    /// Counter of changes of the data, `meta.generation`; [`OPEN_EDITION`] if the answer did not have it.
    pub edition: i64,
    /// Text that the writer put into the data; no two writes of a history have the same.
    pub content: String,
    /// Owner, if any.
    pub owner: Option<Incarnation>,
    /// Whether the resource is marked for deletion.
    pub is_marked: bool,
    /// Whether the resource has finalizers of clients.
    pub has_finalizers: bool,
    /// Texts of the status entries.
    pub statuses: BTreeMap<String, String>,
    /// References in the data, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<Reference>,
    /// Hash of all of its bytes; 0 if the answer did not have all of it.
    pub digest: u64,
}

/// Value of [`State::edition`] in answers without it.
pub const OPEN_EDITION: i64 = -1;

impl State {
    /// Whether the answer had only a part of the resource.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.digest == 0
    }

    /// Whether two answers may show the same state of the same version.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        if !self.is_partial() && !other.is_partial() {
            return self == other;
        }
        let known = Self { edition: other.edition, digest: other.digest, ..self.clone() };
        known == *other
    }
}

/// Resources of a list or a watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Scope {
    /// Kind.
    pub kind: String,
    /// Namespace; `None` for all.
    pub namespace: Option<String>,
    /// Name; `None` for all.
    #[serde(default)]
    pub name: Option<String>,
}

impl Scope {
    /// Whether a resource belongs to the scope.
    #[must_use]
    pub fn has(&self, key: &Key) -> bool {
        self.kind == key.kind
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
            && self.name.as_ref().is_none_or(|name| *name == key.name)
    }
}
