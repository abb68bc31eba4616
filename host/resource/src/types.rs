//! Types and ids, as keys and as text.

use std::{fmt, str::FromStr};

use crate::{Error, IdRef, name, pb, tenancy};

/// A registered type; compared exactly, case included.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gvk {
    /// Group of the type, such as `demo`.
    pub group: String,
    /// Version of the group, such as `v2`.
    pub group_version: String,
    /// Name within the group, such as `Artist`.
    pub kind: String,
}

impl Gvk {
    /// Makes a type of its three parts.
    pub fn new(group: impl Into<String>, group_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), group_version: group_version.into(), kind: kind.into() }
    }

    /// The type as messages carry it.
    #[must_use]
    pub fn to_pb(&self) -> pb::Type {
        pb::Type { group: self.group.clone(), group_version: self.group_version.clone(), kind: self.kind.clone() }
    }

    /// Whether the id is of this type.
    #[must_use]
    pub fn is_of(&self, id: IdRef<'_>) -> bool {
        self.group == id.group && self.group_version == id.group_version && self.kind == id.kind
    }

    /// Whether `other` names this type.
    #[must_use]
    pub fn matches(&self, other: &pb::Type) -> bool {
        self.group == other.group && self.group_version == other.group_version && self.kind == other.kind
    }
}

impl From<&pb::Type> for Gvk {
    fn from(t: &pb::Type) -> Self {
        Self::new(t.group.clone(), t.group_version.clone(), t.kind.clone())
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.group, self.group_version, self.kind)
    }
}

/// The reason why a text is not the full name of a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the full name of a type; write group.version.Kind, such as demo.v2.Artist")]
pub struct TypeNameError {
    /// The text.
    pub text: String,
}

impl FromStr for Gvk {
    type Err = TypeNameError;

    /// Reads `group.group_version.Kind`: three parts of any letters, none of them empty.
    fn from_str(text: &str) -> Result<Self, TypeNameError> {
        let mut parts = text.split('.');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(group), Some(group_version), Some(kind), None) if ![group, group_version, kind].contains(&"") => {
                Ok(Self::new(group, group_version, kind))
            }
            _ => Err(TypeNameError { text: text.to_owned() }),
        }
    }
}

/// Formats a type as `group.group_version.Kind`.
#[must_use]
pub fn gvk(t: &pb::Type) -> String {
    format!("{}.{}.{}", t.group, t.group_version, t.kind)
}

/// The group of the host's own types.
pub const HOST_GROUP: &str = "mortise";

/// The group of the types Partition and Namespace.
pub const TENANCY_GROUP: &str = "tenancy";

/// The type of records of deletions; the reaper deletes the children of the deleted owner.
#[must_use]
pub fn tombstone() -> Gvk {
    Gvk::new("internal", "v1", "Tombstone")
}

/// The type of partitions, the outer unit of tenancy.
#[must_use]
pub fn partition() -> Gvk {
    Gvk::new(TENANCY_GROUP, "v2beta1", "Partition")
}

/// The type of namespaces, the inner unit of tenancy.
#[must_use]
pub fn namespace() -> Gvk {
    Gvk::new(TENANCY_GROUP, "v2beta1", "Namespace")
}

/// The type of the host's records of plugins.
#[must_use]
pub fn plugin() -> Gvk {
    Gvk::new(HOST_GROUP, "v1", "Plugin")
}

/// The type of the entries in the key-value store of a plugin's reconcilers.
#[must_use]
pub fn value() -> Gvk {
    Gvk::new(HOST_GROUP, "v1", "Value")
}

/// The type of the bytes that a plugin keeps for a resource.
#[must_use]
pub fn private_bytes() -> Gvk {
    Gvk::new(HOST_GROUP, "v1", "PrivateBytes")
}

/// The type of deferred work: the check of a resource's owner references.
#[must_use]
pub fn ownership_check() -> Gvk {
    Gvk::new(HOST_GROUP, "v1", "OwnershipCheck")
}

/// The type of the records of how far the replicas of one type from one region are.
#[must_use]
pub fn region_progress() -> Gvk {
    Gvk::new(HOST_GROUP, "v1", "RegionProgress")
}

/// The type of the records of regions that replicas are pulled from.
#[must_use]
pub fn region_peer() -> Gvk {
    Gvk::new(HOST_GROUP, "v1", "RegionPeer")
}

/// The type of tokens: the permissions of a secret's holder.
#[must_use]
pub fn token() -> Gvk {
    Gvk::new(HOST_GROUP, "v1", "Token")
}

/// The type of policies: rules for tokens.
#[must_use]
pub fn policy() -> Gvk {
    Gvk::new(HOST_GROUP, "v1", "Policy")
}

/// Whether a kind is one of those that grant permissions: tokens and policies, in every version.
#[must_use]
pub fn is_access_kind(group: &str, kind: &str) -> bool {
    group == HOST_GROUP && matches!(kind, "Token" | "Policy")
}

/// Checks an id's shape, in the order that clients rely on: type, name, partition, namespace. Replaces an absent
/// tenancy by an empty one. Ignores the uid.
///
/// # Errors
/// `InvalidArgument`; `prefix` names the field with the id.
pub fn check_id(prefix: &str, id: &mut pb::Id) -> Result<(), Error> {
    if id.r#type.is_none() {
        return Err(Error::invalid(format!("{prefix}.type is required")));
    }
    if let Some(fault) = name::fault(&id.name) {
        return Err(Error::invalid(format!("{prefix}.name invalid: {fault}")));
    }
    tenancy::check(prefix, id.tenancy.get_or_insert_default())
}

/// Most bytes of a part of a reference: a uid is a ULID of 26 bytes, and parts of types are shorter.
const MAX_PART_BYTES: usize = 128;

/// Checks the length of a reference's type and uid, which become parts of store keys, and that they have no zero bytes.
/// Call [`check_id`] for the rest.
///
/// # Errors
/// `InvalidArgument`; `prefix` names the field with the id.
pub fn check_reference(prefix: &str, id: &pb::Id) -> Result<(), Error> {
    let ty = id.r#type.clone().unwrap_or_default();
    let parts = [
        ("type.group", &ty.group),
        ("type.group_version", &ty.group_version),
        ("type.kind", &ty.kind),
        ("uid", &id.uid),
    ];
    for (part, text) in parts {
        if text.len() > MAX_PART_BYTES {
            let length = text.len();
            return Err(Error::invalid(format!(
                "{prefix}.{part} invalid: {length} bytes; the limit is {MAX_PART_BYTES}"
            )));
        }
        if text.contains('\0') {
            return Err(Error::invalid(format!("{prefix}.{part} invalid: it contains a zero byte")));
        }
    }
    Ok(())
}

/// Whether two ids name the same incarnation of a resource; the GroupVersion is ignored.
#[must_use]
pub fn same_resource(a: &pb::Id, b: &pb::Id) -> bool {
    let kind = |id: &pb::Id| id.r#type.as_ref().map(|t| (t.group.clone(), t.kind.clone()));
    a.uid == b.uid
        && a.name == b.name
        && kind(a) == kind(b)
        && a.tenancy.clone().unwrap_or_default() == b.tenancy.clone().unwrap_or_default()
}

/// Formats an id for people: `demo.v2.Artist "korn" in default/default`.
#[must_use]
pub fn describe(id: &pb::Id) -> String {
    let mut text = id.r#type.as_ref().map(gvk).unwrap_or_default();
    text.push_str(&format!(" {:?}", id.name));
    if let Some(pb::Tenancy { partition, namespace }) = &id.tenancy {
        match (partition.as_str(), namespace.as_str()) {
            ("", "") => {}
            (p, "") => text.push_str(&format!(" in {p}")),
            (p, n) => text.push_str(&format!(" in {p}/{n}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_three_parts() {
        assert_eq!("demo.v2.Artist".parse(), Ok(Gvk::new("demo", "v2", "Artist")));
        for text in
            ["", "Artist", "v2.Artist", "demo.v2.Artist.x", "demo..Artist", ".v2.Artist", "demo.v2.", "..", "..."]
        {
            let fault = text.parse::<Gvk>().unwrap_err().to_string();
            assert!(fault.starts_with(&format!("{text:?} is not the full name of a type; write ")), "{fault}");
        }
    }

    #[test]
    fn ids_are_checked_in_the_documented_order() {
        let mut id = pb::Id::default();
        let text = |id: &mut pb::Id| check_id("resource.id", id).map_err(|e| e.message);
        assert_eq!(text(&mut id), Err("resource.id.type is required".into()));
        id.r#type = Some(Gvk::new("a", "v1", "B").to_pb());
        assert!(text(&mut id).is_err_and(|m| m.starts_with("resource.id.name invalid: ")));
        id.name = "x".into();
        assert_eq!(text(&mut id), Ok(()));
        assert_eq!(id.tenancy, Some(pb::Tenancy::default()));
        id.tenancy = Some(pb::Tenancy { partition: "P".into(), namespace: "N".into() });
        assert!(text(&mut id).is_err_and(|m| m.starts_with("resource.id.tenancy.partition invalid: ")));
        id.tenancy = Some(pb::Tenancy { partition: "p".into(), namespace: "*".into() });
        assert!(text(&mut id).is_err_and(|m| m.starts_with("resource.id.tenancy.namespace invalid: ")));
    }
}
