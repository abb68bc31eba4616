//! Marks and tombstones of deletions. The deletion of a resource's children follows from its tombstone.

use std::collections::BTreeMap;

use mortise_resource::{meta, name, pb, types};
use mortise_store::Mutation;
use prost::Message as _;

use crate::core::ids;

/// Metadata key of a tombstone that holds the time of the deletion.
const GENERATED_AT_KEY: &str = "generated_at";

/// Returns the mutations that remove a resource in exactly this version, for a larger batch; its tombstone has an
/// unpredictable name.
pub(crate) fn removal(stored: &pb::Resource) -> Vec<Mutation> {
    let id = stored.id.clone().unwrap_or_default();
    let tombstone = tombstone(&id, &ids::ulid());
    vec![Mutation::Delete { id, version: stored.version.clone() }, Mutation::Put(Box::new(tombstone))]
}

/// Returns work for the garbage collector: the tombstone, with an unpredictable name, of a marked resource held by its
/// referrers.
pub(crate) fn pending(id: &pb::Id) -> Mutation {
    Mutation::Put(Box::new(tombstone(id, &ids::ulid())))
}

/// Marks a resource for deletion, now.
pub(crate) fn mark(resource: &mut pb::Resource) {
    resource.metadata.insert(meta::DELETION_TIMESTAMP.to_owned(), ids::rfc3339());
}

pub(crate) fn tombstone(owner: &pb::Id, suffix: &str) -> pb::Resource {
    let content = pb::Tombstone { owner: Some(owner.clone()) };
    pb::Resource {
        id: Some(pb::Id {
            uid: ids::ulid(),
            name: tombstone_name(&owner.name, suffix),
            r#type: Some(types::tombstone().to_pb()),
            tenancy: Some(owner.tenancy.clone().unwrap_or_default()),
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
