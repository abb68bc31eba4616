//! The rules for writes to a marked resource, or to a resource in a marked partition or namespace.
//!
//! A marked resource can only lose finalizers. The rules are checked from top to bottom.

use std::collections::BTreeMap;

use mortise_resource::{
    Error,
    meta::{self, DELETION_TIMESTAMP, FINALIZERS},
    pb,
};

use super::{server_meta, tenancy::proto_text};
use crate::core::ids::tenancy_of;

type Metadata = BTreeMap<String, String>;

/// Remedy for a write that would remove finalizers by leaving them out.
const REMOVAL_HINT: &str =
    "without metadata.finalizers it keeps its finalizers; write the names that stay, or an empty text";

/// Checks an update. `place_marked` says whether the resource's partition or namespace is marked.
///
/// # Errors
/// `InvalidArgument`, with the broken rule.
pub(crate) fn check(stored: &pb::Resource, incoming: &pb::Resource, place_marked: bool) -> Result<(), Error> {
    let refuse = |why: &str| Err(Error::invalid(why));
    let was_marked = meta::is_marked(&stored.metadata);
    let is_marked = meta::is_marked(&incoming.metadata);
    let same_data = incoming.data == stored.data;
    let same_metadata = |except: &[&str]| meta::equal_except(&incoming.metadata, &stored.metadata, except);

    if was_marked && !is_marked {
        return refuse("cannot remove deletionTimestamp");
    }
    let stamp = stored.metadata.get(DELETION_TIMESTAMP);
    if stamp.is_some_and(|value| !value.is_empty()) && incoming.metadata.get(DELETION_TIMESTAMP) != stamp {
        return refuse("cannot modify deletionTimestamp");
    }
    if is_marked && !was_marked {
        return if !same_metadata(&[DELETION_TIMESTAMP]) {
            refuse("cannot modify metadata")
        } else if !same_data {
            refuse("cannot modify data")
        } else {
            Ok(())
        };
    }
    if was_marked && same_data && same_metadata(&[DELETION_TIMESTAMP]) {
        return refuse("cannot no-op write resource marked for deletion");
    }
    if was_marked && meta::has_finalizers(&stored.metadata) {
        return if !same_metadata(&[DELETION_TIMESTAMP, FINALIZERS]) {
            refuse("cannot modify metadata")
        } else if !same_data {
            refuse("cannot modify data")
        } else if !meta::loses_finalizers(&stored.metadata, &incoming.metadata) {
            refuse("expected at least one finalizer to be removed")
        } else {
            Ok(())
        };
    }
    let only_loses_finalizers =
        same_data && same_metadata(&[FINALIZERS]) && meta::loses_finalizers(&stored.metadata, &incoming.metadata);
    if place_marked && !only_loses_finalizers {
        let tenancy = incoming.id.as_ref().map(|id| proto_text(tenancy_of(id))).unwrap_or_default();
        return refuse(&format!("cannot write resource when tenancy marked for deletion: {tenancy}"));
    }
    Ok(())
}

/// Whether an update belongs to a deletion: it marks the resource, or removes finalizers from a marked one. [`check`]
/// limits its other changes. `metadata` is that of the updated resource.
pub(crate) fn belongs_to_deletion(stored: &pb::Resource, metadata: &Metadata) -> bool {
    match meta::is_marked(&stored.metadata) {
        false => meta::is_marked(metadata),
        true => meta::loses_finalizers(&stored.metadata, metadata),
    }
}

/// Adds the way to remove finalizers to the refusal of a blanket write that leaves out those of a marked resource.
pub(crate) fn explain_finalizers(refusal: Error, incoming: &pb::Resource, stored: &pb::Resource) -> Error {
    let is_kept = |name: &&str| !name.starts_with(meta::HOST_FINALIZERS);
    let leaves_out = incoming.version.is_empty() && !incoming.metadata.contains_key(FINALIZERS);
    match leaves_out && meta::is_marked(&stored.metadata) && meta::finalizers(&stored.metadata).iter().any(is_kept) {
        true => Error { message: format!("{}; {REMOVAL_HINT}", refusal.message), ..refusal },
        false => refusal,
    }
}

/// Returns metadata with the reserved keys that a blanket write leaves as they are.
pub(crate) fn with_reserved_metadata(
    incoming: &pb::Resource,
    stored: &pb::Resource,
    metadata: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut metadata = metadata.clone();
    if incoming.version.is_empty() {
        for key in [DELETION_TIMESTAMP, FINALIZERS] {
            if let (false, Some(kept)) = (metadata.contains_key(key), stored.metadata.get(key)) {
                metadata.insert(key.to_owned(), kept.clone());
            }
        }
    }
    metadata
}

/// Whether `meta.lifecycle` blocks the deletion of a resource.
pub(crate) fn is_protected(stored: &pb::Resource) -> bool {
    server_meta::is_blocked(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(metadata: &[(&str, &str)], data: &[u8]) -> pb::Resource {
        pb::Resource {
            metadata: metadata.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            data: Some(prost_types::Any { type_url: "t".into(), value: data.to_vec() }),
            id: Some(pb::Id {
                tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: "n".into() }),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    fn rule(stored: &pb::Resource, incoming: &pb::Resource) -> String {
        check(stored, incoming, false).err().map(|e| e.message).unwrap_or_default()
    }

    const MARK: (&str, &str) = (DELETION_TIMESTAMP, "2026-01-01T00:00:00Z");

    #[test]
    fn the_mark_stays() {
        let stored = resource(&[MARK], b"");
        assert_eq!(rule(&stored, &resource(&[], b"")), "cannot remove deletionTimestamp");
        assert_eq!(rule(&stored, &resource(&[(DELETION_TIMESTAMP, "x")], b"1")), "cannot modify deletionTimestamp");
        let empty = resource(&[(DELETION_TIMESTAMP, ""), (FINALIZERS, "a")], b"");
        assert_eq!(rule(&empty, &resource(&[(DELETION_TIMESTAMP, "x")], b"")), "", "an empty value may be filled in");
    }

    #[test]
    fn marking_changes_nothing_else() {
        let stored = resource(&[("k", "v")], b"");
        assert_eq!(rule(&stored, &resource(&[MARK, ("k", "v")], b"")), "");
        assert_eq!(rule(&stored, &resource(&[MARK], b"")), "cannot modify metadata");
        assert_eq!(rule(&stored, &resource(&[MARK, ("k", "v")], b"1")), "cannot modify data");
        assert_eq!(rule(&stored, &resource(&[MARK, ("k", "v"), (FINALIZERS, "a")], b"")), "cannot modify metadata");
    }

    #[test]
    fn a_marked_resource_only_loses_finalizers() {
        let stored = resource(&[MARK, (FINALIZERS, "a b"), ("k", "v")], b"");
        let with = |finalizers, k, data| resource(&[MARK, (FINALIZERS, finalizers), ("k", k)], data);
        assert_eq!(rule(&stored, &with("a b", "v", b"")), "cannot no-op write resource marked for deletion");
        assert_eq!(rule(&stored, &with("a", "w", b"")), "cannot modify metadata");
        assert_eq!(rule(&stored, &with("a", "v", b"1")), "cannot modify data");
        for same in ["b a", "a b c", "a c"] {
            assert_eq!(rule(&stored, &with(same, "v", b"")), "expected at least one finalizer to be removed", "{same}");
        }
        assert_eq!(rule(&stored, &with("b", "v", b"")), "");
        assert_eq!(rule(&stored, &with("", "v", b"")), "");
    }

    #[test]
    fn marked_without_finalizers_anything_but_a_no_op_goes() {
        let stored = resource(&[MARK], b"");
        assert_eq!(rule(&stored, &resource(&[MARK], b"1")), "");
        assert_eq!(rule(&stored, &resource(&[MARK, (FINALIZERS, "a")], b"")), "");
        assert_eq!(rule(&stored, &resource(&[MARK], b"")), "cannot no-op write resource marked for deletion");
    }

    #[test]
    fn in_a_place_that_goes_finalizers_may_go() {
        let stored = resource(&[(FINALIZERS, "a")], b"");
        let fails = |incoming: &pb::Resource| check(&stored, incoming, true).err().map(|e| e.message);
        assert_eq!(
            fails(&resource(&[(FINALIZERS, "a")], b"1")).as_deref(),
            Some("cannot write resource when tenancy marked for deletion: partition:\"default\" namespace:\"n\"")
        );
        assert_eq!(fails(&resource(&[], b"")), None);
        assert_eq!(fails(&resource(&[MARK, (FINALIZERS, "a")], b"")), None);
    }
}
