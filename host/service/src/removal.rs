//! Removal of resources: each with a tombstone in the same commit, from which the deletion of its children follows.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use mortise_resource::{meta, name, pb, types};
use mortise_store::{Batch, Consistency, Mutation, StoreError};
use prost::Message as _;

use crate::{ids, server_meta, service::ResourceService};

/// Metadata key of a tombstone that holds the time of the deletion.
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
        let with = |tombstone| Batch::of_all(vec![delete.clone(), Mutation::Put(Box::new(tombstone))]);
        match self.backend.commit(with(tombstone(&id, &id.uid))).await {
            Err(StoreError::CasFailure { mutation: 1 } | StoreError::WrongUid) => {}
            other => return other.map(drop),
        }
        // There is a tombstone of that name. Either a concurrent call has just deleted the resource, or a client wrote
        // the tombstone. In the second case the children have to follow whatever it says, and whatever the reaper makes
        // of it; so this tombstone gets a name that cannot have been foreseen.
        match self.backend.read(Consistency::Consistent, &id).await {
            Err(StoreError::NotFound) => Ok(()),
            _ => self.backend.commit(with(tombstone(&id, &ids::ulid()))).await.map(drop),
        }
    }

    /// Deletes a resource on behalf of the host, in whatever version is stored, without hooks and permissions. Marks a
    /// resource that has finalizers instead. Returns whether the resource is gone.
    ///
    /// # Errors
    /// Faults of the store, and a conflict in each of ten attempts.
    pub async fn delete_unchecked(&self, id: &pb::Id) -> Result<bool, StoreError> {
        let mut attempts = 0;
        loop {
            let stored = match self.backend.read(Consistency::Consistent, id).await {
                Ok(stored) => stored,
                Err(StoreError::NotFound) => return Ok(true),
                Err(StoreError::GroupVersionMismatch { stored, .. }) => stored.decode()?,
                Err(e) => return Err(e),
            };
            let outcome = if !meta::has_finalizers(&stored.metadata) {
                self.remove(&stored).await.map(|()| true)
            } else if meta::is_marked(&stored.metadata) {
                return Ok(false);
            } else {
                let mut marked = stored;
                mark(&mut marked);
                marked.generation = ids::ulid();
                server_meta::set_touched(&mut marked);
                self.backend.write_cas(marked).await.map(|_| false)
            };
            attempts += 1;
            match outcome {
                Err(StoreError::CasFailure { .. } | StoreError::WrongUid) if attempts < ATTEMPTS => {}
                other => return other,
            }
        }
    }

    /// Calls [`ResourceService::delete_unchecked`] for every id, also after one failed.
    ///
    /// # Errors
    /// The first error.
    pub(crate) async fn delete_all_unchecked(&self, ids: impl Iterator<Item = pb::Id>) -> Result<(), StoreError> {
        let deletions =
            stream::iter(ids).map(|id| async move { self.delete_unchecked(&id).await }).buffer_unordered(PARALLEL);
        deletions.fold(Ok(()), async |so_far, outcome| so_far.and(outcome.map(drop))).await
    }
}

/// What removes a resource in exactly this version, for a batch that does more: with a tombstone whose name cannot have
/// been foreseen.
pub(crate) fn mutations(stored: &pb::Resource) -> Vec<Mutation> {
    let id = stored.id.clone().unwrap_or_default();
    let tombstone = tombstone(&id, &ids::ulid());
    vec![Mutation::Delete { id, version: stored.version.clone() }, Mutation::Put(Box::new(tombstone))]
}

/// Marks a resource for deletion, now.
pub(crate) fn mark(resource: &mut pb::Resource) {
    resource.metadata.insert(meta::DELETION_TIMESTAMP.to_owned(), ids::rfc3339());
}

fn tombstone(owner: &pb::Id, suffix: &str) -> pb::Resource {
    let content = pb::Tombstone { owner: Some(owner.clone()) };
    pb::Resource {
        id: Some(pb::Id {
            uid: ids::ulid(),
            name: tombstone_name(&owner.name, suffix),
            r#type: Some(types::tombstone().to_pb()),
            tenancy: Some(owner.tenancy.clone().unwrap_or_default()),
        }),
        generation: ids::ulid(),
        metadata: BTreeMap::from([(GENERATED_AT.to_owned(), ids::rfc3339())]),
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
