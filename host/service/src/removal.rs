//! Removal of resources: each with a tombstone in the same commit, from which the deletion of its children follows.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use mortise_resource::{EncodedResource, meta, name, pb, types};
use mortise_store::{Batch, Consistency, ExpectedReferrers, Mutation, StoreError};
use prost::Message as _;

use crate::{
    caller::Caller,
    ids,
    references::{
        carry_out::RemovalError,
        plan::{Fate, Purpose},
    },
    registry::Registry,
    server_meta,
    service::ResourceService,
};

/// Metadata key of a tombstone that holds the time of the deletion.
const GENERATED_AT: &str = "generated_at";

/// The host's own deletions under way at once: enough to fill a group commit.
const PARALLEL: usize = 32;

/// How often the host's own deletions try again after a conflict.
const ATTEMPTS: u32 = 10;

impl ResourceService {
    /// Deletes a resource in exactly this version, leaving a tombstone. Tombstones leave none.
    pub(crate) async fn remove(&self, stored: &pb::Resource) -> Result<(), StoreError> {
        self.remove_expecting(stored, Vec::new()).await
    }

    /// As [`ResourceService::remove`], if what refers to it is what was seen.
    pub(crate) async fn remove_expecting(
        &self,
        stored: &pb::Resource,
        referrers: Vec<ExpectedReferrers>,
    ) -> Result<(), StoreError> {
        let id = stored.id.clone().unwrap_or_default();
        let delete = Mutation::Delete { id: id.clone(), version: stored.version.clone() };
        if id.r#type.as_ref().is_some_and(|t| types::tombstone().matches(t)) {
            return self.backend.commit(Batch::single(delete)).await.map(drop);
        }
        let with = |tombstone| Batch {
            referrers: referrers.clone(),
            ..Batch::new(vec![delete.clone(), Mutation::Put(Box::new(tombstone))])
        };
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
    /// Faults of the store, a conflict in each of ten attempts, and what refers to the resource and blocks.
    pub async fn delete_unchecked(&self, id: &pb::Id) -> Result<bool, RemovalError> {
        self.delete_for(id, Purpose::Delete).await
    }

    /// As [`ResourceService::delete_unchecked`], for some purpose.
    pub(crate) async fn delete_for(&self, id: &pb::Id, purpose: Purpose<'_>) -> Result<bool, RemovalError> {
        let registry = self.types();
        let mut attempts = 0;
        loop {
            let stored = match self.backend.read(Consistency::Consistent, id).await {
                Ok(stored) => stored,
                Err(StoreError::NotFound) => return Ok(true),
                Err(StoreError::GroupVersionMismatch { stored, .. }) => stored.decode()?,
                Err(e) => return Err(e.into()),
            };
            attempts += 1;
            match self.delete_version(&registry, stored, purpose).await {
                Err(error) if error.is_conflict() && attempts < ATTEMPTS => {}
                other => return other,
            }
        }
    }

    /// Deletes a resource in exactly this version, or marks it where something holds it. Returns whether it is gone.
    pub(crate) async fn delete_version(
        &self,
        registry: &Registry,
        stored: pb::Resource,
        purpose: Purpose<'_>,
    ) -> Result<bool, RemovalError> {
        if meta::is_marked(&stored.metadata) && meta::has_finalizers(&stored.metadata) {
            return Ok(false);
        }
        if self.is_planned(registry, &stored) {
            let plan = self.plan_deletion(registry, EncodedResource::encode(&stored)?, purpose).await?;
            let host = Caller::host(Consistency::Consistent);
            return Ok(self.carry_out(registry, &host, plan).await? == Fate::Remove);
        }
        if !meta::has_finalizers(&stored.metadata) {
            return Ok(self.remove(&stored).await.map(|()| true)?);
        }
        let mut marked = stored;
        mark(&mut marked);
        marked.generation = ids::ulid();
        server_meta::set_touched(&mut marked);
        self.renew_records(&mut marked);
        Ok(self.backend.write_cas(marked).await.map(|_| false)?)
    }

    /// Whether the deletion of a resource has to look at what refers to it, or whether it may go.
    pub(crate) fn is_planned(&self, registry: &Registry, stored: &pb::Resource) -> bool {
        let of = stored.id.as_ref().and_then(|id| id.r#type.as_ref());
        of.is_some_and(|of| registry.is_referenced(&of.group, &of.kind)) || is_protected(stored)
    }

    /// Calls [`ResourceService::delete_unchecked`] for every id, also after one failed.
    ///
    /// # Errors
    /// The first error.
    pub(crate) async fn delete_all_for(
        &self,
        ids: impl Iterator<Item = pb::Id>,
        purpose: Purpose<'_>,
    ) -> Result<(), RemovalError> {
        let deletions =
            stream::iter(ids).map(|id| async move { self.delete_for(&id, purpose).await }).buffer_unordered(PARALLEL);
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

/// Work for the garbage collector: a resource that is marked, and held by what refers to it. Its name cannot have been
/// foreseen.
pub(crate) fn pending(id: &pb::Id) -> Mutation {
    Mutation::Put(Box::new(tombstone(id, &ids::ulid())))
}

/// Whether `meta.lifecycle` keeps a resource from being deleted.
pub(crate) fn is_protected(stored: &pb::Resource) -> bool {
    stored.meta.as_ref().and_then(|meta| meta.lifecycle).is_some_and(|lifecycle| lifecycle.block_deletion)
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
