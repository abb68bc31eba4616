//! Keys of resources in queues and caches: partition, namespace and name, within one type.
//!
//! The uid is not part of the key. Consul's queue has it in the key, so that one resource may wait twice, once with a
//! uid and once without; here each name has one place, and the newest known uid is part of the content. The price: when
//! a name is deleted and created again before its turn comes, there is one reconcile instead of two. Work for each
//! incarnation needs a finalizer.
//!
//! Each part ends with a zero byte, which no part can contain, so that keys sort by partition, namespace, name, and the
//! keys of a tenancy are a range. A key is one shared allocation: the cache and the queue of a controller hold the same
//! one.

use std::{borrow::Borrow, fmt, sync::Arc};

use mortise_resource::{IdRef, pb};

/// Identifies a resource within a type that the context gives. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Arc<str>);

impl Key {
    /// Makes a key of its parts. Zero bytes in a part are dropped, since they would shift the parts; the store rejects
    /// them anyway.
    #[must_use]
    pub fn new(partition: &str, namespace: &str, name: &str) -> Self {
        Self(text(partition, namespace, name).into())
    }

    /// Makes the key of an id, without its type and its uid.
    #[must_use]
    pub fn of<'i>(id: impl Into<IdRef<'i>>) -> Self {
        Self(text_of(id).into())
    }

    /// Makes a key of the result of [`text_of`].
    pub(crate) fn from_text(text: String) -> Self {
        Self(text.into())
    }

    /// The outer unit of tenancy; empty for types of cluster scope.
    #[must_use]
    pub fn partition(&self) -> &str {
        self.part(0)
    }

    /// The inner unit of tenancy; empty for types of cluster and partition scope.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.part(1)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.part(2)
    }

    /// The key as an id of `resource_type`.
    #[must_use]
    pub fn id(&self, resource_type: &pb::Type, uid: Option<&str>) -> pb::Id {
        pb::Id {
            uid: uid.unwrap_or_default().to_owned(),
            name: self.name().to_owned(),
            r#type: Some(resource_type.clone()),
            tenancy: Some(pb::Tenancy {
                partition: self.partition().to_owned(),
                namespace: self.namespace().to_owned(),
            }),
        }
    }

    /// The whole key, zero bytes included.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    fn part(&self, nth: usize) -> &str {
        self.0.split('\0').nth(nth).unwrap_or_default()
    }
}

/// The text of an id's key, for a look-up without an allocation of a key.
pub(crate) fn text_of<'i>(id: impl Into<IdRef<'i>>) -> String {
    let IdRef { partition, namespace, name, .. } = id.into();
    text(partition, namespace, name)
}

fn text(partition: &str, namespace: &str, name: &str) -> String {
    let mut text = String::with_capacity(partition.len() + namespace.len() + name.len() + 3);
    for part in [partition, namespace, name] {
        if part.contains('\0') {
            text.extend(part.chars().filter(|c| *c != '\0'));
        } else {
            text.push_str(part);
        }
        text.push('\0');
    }
    text
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    /// Writes `partition/namespace/name` without empty units.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for unit in [self.partition(), self.namespace()] {
            if !unit.is_empty() {
                write!(f, "{unit}/")?;
            }
        }
        f.write_str(self.name())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// A type without its version: v1 and v2 of a kind share one cache, as they share one place in the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupKind {
    pub(crate) group: String,
    pub(crate) kind: String,
}

impl GroupKind {
    /// Whether a type is of this group and kind.
    pub(crate) fn matches(&self, resource_type: &pb::Type) -> bool {
        self.group == resource_type.group && self.kind == resource_type.kind
    }
}

impl From<&pb::Type> for GroupKind {
    fn from(resource_type: &pb::Type) -> Self {
        Self { group: resource_type.group.clone(), kind: resource_type.kind.clone() }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.group, self.kind)
    }
}
