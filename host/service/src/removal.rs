//! How resources leave: with a tombstone, in the same commit, so that what they owned follows.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use mortise_resource::{meta, name, pb, types};
use mortise_store::{Batch, Consistency, Mutation, StoreError};
use prost::Message as _;

use crate::{service::ResourceService, stamp};

/// Where the tombstone notes when it was made.
const GENERATED_AT: &str = "generated_at";

/// The host's own deletions under way at once: enough to fill a group commit.
const PARALLEL: usize = 32;

/// How often the host's own deletions try again after a conflict.
const ATTEMPTS: u32 = 10;

impl ResourceService {
    /// Deletes a resource in exactly this version, leaving a tombstone. Tombstones leave none.
    pub(crate) async fn remove(&self, stored: &pb::Resource) -> Result<(), StoreError> {
        let id = stored.id.clone().unwrap_or_default();
        let delete = Mutation::Delete { id: id.clone(), version: stored.version.clone() };
        if id.r#type.as_ref().is_some_and(|t| types::tombstone().matches(t)) {
            return self.backend.commit(Batch::of(delete)).await.map(drop);
        }
        let with = |tombstone| Batch {
            expect: Vec::new(),
            mutations: vec![delete.clone(), Mutation::Put(Box::new(tombstone))],
        };
        match self.backend.commit(with(tombstone(&id, &id.uid))).await {
            Err(StoreError::CasFailure { mutation: 1 } | StoreError::WrongUid) => {}
            other => return other.map(drop),
        }
        // There is a tombstone of that name. Either somebody else has just deleted the resource, or somebody wrote it by
        // hand. Whatever that one says, and whatever the reaper is making of it, what the resource owned has to follow;
        // so ours gets a name that nobody can have foreseen.
        match self.backend.read(Consistency::Consistent, &id).await {
            Err(StoreError::NotFound) => Ok(()),
            _ => self.backend.commit(with(tombstone(&id, &stamp::ulid()))).await.map(drop),
        }
    }

    /// The host's own deletion: no hooks, no permission, whatever version is stored. A resource with finalizers is
    /// marked instead. Returns whether it is gone.
    ///
    /// # Errors
    /// Faults of the store, and a conflict that does not end.
    pub async fn expire(&self, id: &pb::Id) -> Result<bool, StoreError> {
        let mut attempts = 0;
        loop {
            let stored = match self.backend.read(Consistency::Consistent, id).await {
                Ok(stored) => stored,
                Err(StoreError::NotFound) => return Ok(true),
                Err(StoreError::GroupVersionMismatch { stored, .. }) => *stored,
                Err(e) => return Err(e),
            };
            let outcome = if !meta::has_finalizers(&stored.metadata) {
                self.remove(&stored).await.map(|()| true)
            } else if meta::is_marked(&stored.metadata) {
                return Ok(false);
            } else {
                let mut marked = stored;
                mark(&mut marked);
                marked.generation = stamp::ulid();
                self.backend.write_cas(marked).await.map(|_| false)
            };
            attempts += 1;
            match outcome {
                Err(StoreError::CasFailure { .. } | StoreError::WrongUid) if attempts < ATTEMPTS => {}
                other => return other,
            }
        }
    }

    /// [`ResourceService::expire`] of many, all of them, also after one failed.
    ///
    /// # Errors
    /// The first.
    pub(crate) async fn expire_all(&self, ids: impl Iterator<Item = pb::Id>) -> Result<(), StoreError> {
        let deletions = stream::iter(ids).map(|id| async move { self.expire(&id).await }).buffer_unordered(PARALLEL);
        deletions.fold(Ok(()), async |so_far, outcome| so_far.and(outcome.map(drop))).await
    }
}

/// Marks a resource for deletion, now.
pub(crate) fn mark(resource: &mut pb::Resource) {
    resource.metadata.insert(meta::DELETION_TIMESTAMP.to_owned(), stamp::rfc3339());
}

fn tombstone(owner: &pb::Id, suffix: &str) -> pb::Resource {
    let content = pb::Tombstone { owner: Some(owner.clone()) };
    pb::Resource {
        id: Some(pb::Id {
            uid: stamp::ulid(),
            name: tombstone_name(&owner.name, suffix),
            r#type: Some(types::tombstone().to_pb()),
            tenancy: Some(owner.tenancy.clone().unwrap_or_default()),
        }),
        generation: stamp::ulid(),
        metadata: BTreeMap::from([(GENERATED_AT.to_owned(), stamp::rfc3339())]),
        data: Some(prost_types::Any {
            type_url: "type.googleapis.com/hashicorp.consul.resource.Tombstone".into(),
            value: content.encode_to_vec(),
        }),
        ..pb::Resource::default()
    }
}

/// `tombstone-<name>-<uid>`, in lower case. The name is cut where the whole would not be a legal name; the uid keeps it
/// unique.
fn tombstone_name(owner: &str, uid: &str) -> String {
    const PREFIX: &str = "tombstone-";
    let room = name::MAX_LEN.saturating_sub(PREFIX.len() + 1 + uid.len());
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
