//! Marks and tombstones of deletions. The deletion of a resource's children follows from its tombstone.

use std::collections::BTreeMap;

use mortise_resource::{
    meta, name,
    pb::{self, condition::State},
    types,
};
use mortise_store::Mutation;
use prost::Message as _;

use super::region;
use crate::core::ids;

/// Status entry that records the first pass of the reaper.
pub(crate) const STATUS_KEY: &str = "consul.io/reaper-controller";
/// Condition of that entry.
pub(crate) const FIRST_PASS: &str = "FirstPassCompleted";
/// Metadata key of a tombstone that holds the time of the deletion.
const GENERATED_AT_KEY: &str = "generated_at";

/// Returns the mutations that remove a resource in exactly this version, for a larger batch; its tombstone has an
/// unpredictable name.
pub(crate) fn removal(stored: &pb::Resource) -> Vec<Mutation> {
    removal_by(stored, "")
}

/// Like [`removal`], as part of the deletion of the resource with this uid; empty for the resource itself.
pub(crate) fn removal_by(stored: &pb::Resource, deletion: &str) -> Vec<Mutation> {
    let id = stored.id.clone().unwrap_or_default();
    let delete = Mutation::Delete { id, version: stored.version.clone() };
    vec![delete, pending(stored, deletion)]
}

/// Returns work for the reaper: the tombstone, with an unpredictable name, of a resource that is gone, or marked and
/// held by its referrers.
pub(crate) fn pending(stored: &pb::Resource, deletion: &str) -> Mutation {
    Mutation::Put(Box::new(tombstone(stored, &ids::ulid(), deletion)))
}

/// Returns work for the reaper: the tombstone, with an unpredictable name, of an owner that does not exist. Only the
/// second pass is left to do, so that the child of the same commit is there for a while. The child's writer chose the
/// uid, so the tombstone does not prove a deletion and releases no owner reference: it has no time of a deletion
/// ([`is_of_absent`]).
pub(crate) fn of_absent(owner: &pb::Id) -> Mutation {
    let owner = pb::Resource { id: Some(owner.clone()), ..pb::Resource::default() };
    let mut tombstone = tombstone(&owner, &ids::ulid(), "");
    tombstone.status.insert(STATUS_KEY.to_owned(), first_pass(&tombstone.generation));
    tombstone.metadata.remove(GENERATED_AT_KEY);
    Mutation::Put(Box::new(tombstone))
}

/// Whether a tombstone is of an owner that did not exist when its child was written.
pub(crate) fn is_of_absent(tombstone: &pb::Resource) -> bool {
    !tombstone.metadata.contains_key(GENERATED_AT_KEY)
}

/// Returns the status of a tombstone after the reaper's first pass, now.
pub(crate) fn first_pass(generation: &str) -> pb::Status {
    pb::Status {
        observed_generation: generation.to_owned(),
        conditions: vec![pb::Condition {
            r#type: FIRST_PASS.into(),
            state: State::True.into(),
            reason: "Success".into(),
            ..pb::Condition::default()
        }],
        updated_at: Some(ids::timestamp()),
    }
}

/// Marks a resource for deletion, now.
pub(crate) fn mark(resource: &mut pb::Resource) {
    resource.metadata.insert(meta::DELETION_TIMESTAMP.to_owned(), ids::rfc3339());
}

/// Builds the tombstone of a resource; `suffix` makes its name unique. `deletion` is as in [`removal_by`].
pub(crate) fn tombstone(stored: &pb::Resource, suffix: &str, deletion: &str) -> pb::Resource {
    let owner = stored.id.clone().unwrap_or_default();
    let deletion = if deletion == owner.uid { "" } else { deletion }.to_owned();
    let content =
        pb::Tombstone { owner: Some(owner.clone()), deletion, region: region::owning_region(stored).to_owned() };
    pb::Resource {
        id: Some(pb::Id {
            uid: ids::ulid(),
            name: tombstone_name(&owner.name, suffix),
            r#type: Some(types::tombstone().to_pb()),
            tenancy: Some(owner.tenancy.unwrap_or_default()),
        }),
        generation: ids::ulid(),
        metadata: BTreeMap::from([(GENERATED_AT_KEY.to_owned(), ids::rfc3339())]),
        data: Some(prost_types::Any {
            type_url: "type.googleapis.com/hashicorp.consul.resource.Tombstone".into(),
            value: content.encode_to_vec(),
        }),
        ..pb::Resource::default()
    }
}

/// Returns `tombstone-<name>-<uid>`, in lower case. The name is cut if the whole would not be a legal name; the uid
/// keeps it unique.
fn tombstone_name(owner: &str, uid: &str) -> String {
    const PREFIX: &str = "tombstone-";
    let room = name::MAX_NAME_BYTES.saturating_sub(PREFIX.len() + 1 + uid.len());
    let cut: String = owner.chars().take(room).collect();
    format!("{PREFIX}{cut}-{}", uid.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_for(owner: &str) -> String {
        tombstone_name(owner, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    }

    #[test]
    fn tombstones_have_legal_names() {
        assert_eq!(name_for("korn"), "tombstone-korn-01arz3ndektsv4rrffq69g5fav");
        let longest = name_for(&"x".repeat(63));
        assert_eq!(longest.len(), 63);
        assert!(name::is_valid(&longest));
        assert!(name::is_valid(&name_for(&format!("{}-{}", "a".repeat(25), "b".repeat(30)))));
    }
}
