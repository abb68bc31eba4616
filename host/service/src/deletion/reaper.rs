//! The reaper: deletes the children of deleted resources.
//!
//! For each tombstone whose owner is gone in that incarnation, the reaper deletes every child and records that in the
//! tombstone's status. Some time later it does so once more, for children that were being written meanwhile, and
//! deletes the tombstone. Children with finalizers are marked, and deleted after their last finalizer. The children's
//! deletions leave tombstones of their own, so whole trees are deleted. Owner references to the owner are dropped
//! ([`crate::deletion::owners`]).
//!
//! The tombstone of a resource that still exists, marked and held by its referrers, stands for its deferred work.
//!
//! The reaper is an ordinary controller of the host. All its state is in the store: after a crash every tombstone is
//! reconciled again, and the work goes on.

use std::sync::Arc;

use async_trait::async_trait;
use mortise_controller::{Context, Definition, Outcome, ReconcileError, Reconciler, Request};
use mortise_resource::{
    meta,
    pb::{self, condition::State},
    types,
};
use mortise_store::{Consistency, StoreError};
use prost::Message as _;

use super::{
    deletions::{Deletions, GROUP_COMMIT_CHANGES},
    error::RemovalError,
    owners::DeletedOwner,
    plan::Purpose,
};
use crate::{
    planted::{self, Fault},
    references::finalizer,
    rules::{
        access_rules, builtin_types, region,
        tombstone::{self, FIRST_PASS, STATUS_KEY},
    },
};

/// The controller of tombstones.
struct Reaper(Deletions);

#[async_trait]
impl Reconciler for Reaper {
    async fn reconcile(&self, context: &Context, request: Request) -> Result<Outcome, ReconcileError> {
        let id = request.id(context.managed());
        self.0
            .process_tombstone(&id)
            .await
            .map_err(|e| ReconcileError::because(format!("cascading deletion failed: {e}"), e))
    }
}

impl Deletions {
    /// Returns the reaper as a controller of tombstones. It retries a failure after 5 ms, doubled with each further one
    /// up to 1,000 s.
    pub(crate) fn reaper(&self) -> Definition {
        Definition::new("reaper", types::tombstone().to_pb(), Arc::new(Reaper(self.clone())))
            .parallel(GROUP_COMMIT_CHANGES)
    }

    pub(super) async fn process_tombstone(&self, id: &pb::Id) -> Result<Outcome, RemovalError> {
        let tombstone = match self.core.backend.read(Consistency::Consistent, id).await {
            Ok(tombstone) => tombstone,
            Err(StoreError::NotFound) => {
                self.second_passes.forget(id);
                return Ok(Outcome::Done);
            }
            Err(e) => return Err(e.into()),
        };
        let content = tombstone.data.as_ref().and_then(|any| pb::Tombstone::decode(any.value.as_slice()).ok());
        let deleted = content.and_then(|content| DeletedOwner::of(content, &tombstone));
        let Some(deleted) = deleted else {
            tracing::warn!(tombstone = id.name, "names no owner with a uid; nothing to do");
            return Ok(Outcome::Done);
        };
        let owner = deleted.id.clone();
        // A tombstone counts only when its owner is gone; while the owner lives, its children are safe.
        match self.core.backend.read(Consistency::Consistent, &owner).await {
            Err(StoreError::NotFound) => {}
            Ok(owner) => return self.process_living(id, owner, &deleted.deletion).await,
            Err(StoreError::GroupVersionMismatch { stored, .. }) => {
                return self.process_living(id, stored.decode()?, &deleted.deletion).await;
            }
            Err(e) => return Err(e.into()),
        }
        let is_second = has_first_pass(&tombstone);
        if !is_second {
            self.delete_children(&deleted).await?;
            self.record_first_pass(tombstone).await?;
        }
        let wait = self.second_passes.remaining(id, self.core.options.second_pass);
        if !is_second || !wait.is_zero() {
            return Ok(Outcome::After(wait));
        }
        self.delete_children(&deleted).await?;
        self.delete_unchecked(id).await?;
        self.second_passes.forget(id);
        Ok(Outcome::Done)
    }

    /// Works on a tombstone whose resource still exists: one held by its referrers, or a tombstone without a deletion.
    async fn process_living(
        &self,
        tombstone: &pb::Id,
        owner: pb::Resource,
        deletion: &str,
    ) -> Result<Outcome, RemovalError> {
        let is_held = meta::finalizers(&owner.metadata).contains(finalizer::REFERENCES_FINALIZER);
        if is_held && meta::is_marked(&owner.metadata) {
            return self.work_off(owner, deletion).await;
        }
        self.delete_unchecked(tombstone).await?;
        Ok(Outcome::Done)
    }

    /// Deletes the owner's children, and drops the owner from the owner references of others.
    async fn delete_children(&self, owner: &DeletedOwner) -> Result<(), RemovalError> {
        let released = self.release_dependents(owner).await;
        let mut pages = self.core.backend.scan_owned(&planted::reaped(&self.core, &owner.id).await).await?;
        let mut outcome = Ok(());
        while let Some(page) = pages.next().await? {
            // Replicas are deleted when their own region deletes them. Units named `default` exist without regard to
            // their owner, and policies stay.
            let mine = page.iter().filter(|child| !region::is_foreign(&self.core, child));
            let children = mine.filter_map(|child| child.decode_id().transpose());
            let mut children = children.collect::<Result<Vec<_>, _>>()?;
            children.retain(|child| !builtin_types::is_default(child) && !access_rules::outlives_owners(child));
            if planted::happens(Fault::ReaperForgetsChild) {
                children.pop();
            }
            // A failed child does not keep the others.
            outcome = outcome.and(self.delete_all_for(children.into_iter(), Purpose::Follow(&owner.deletion)).await);
        }
        outcome.and(released)
    }

    async fn record_first_pass(&self, mut tombstone: pb::Resource) -> Result<(), StoreError> {
        let status = tombstone::first_pass(&tombstone.generation);
        tombstone.status.insert(STATUS_KEY.to_owned(), status);
        match self.core.backend.write_cas(tombstone).await {
            Ok(_) => Ok(()),
            // Changed or deleted concurrently: the next reconcile sees it.
            Err(StoreError::CasFailure { .. } | StoreError::WrongUid) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

/// Returns whether the first pass over a tombstone's children is recorded.
fn has_first_pass(tombstone: &pb::Resource) -> bool {
    let status = tombstone.status.get(STATUS_KEY);
    status.is_some_and(|status| status.conditions.iter().any(|c| c.r#type == FIRST_PASS && c.state() == State::True))
}

#[cfg(test)]
mod tests {
    use arc_swap::ArcSwap;
    use mortise_resource::goten::{Meta, OwnerReference};
    use mortise_store::{Backend, Options as StoreOptions, SledBackend};

    use super::*;
    use crate::{
        call::Caller,
        core::{Options, ids},
        references::{ResourceKey, Strictness, records::records},
        registry::Registry,
        service::ResourceService,
    };

    /// A policy that an earlier release stored with an owner and an owner reference stays when both are gone; a token
    /// with the same owner goes.
    #[tokio::test]
    async fn a_policy_stays_when_its_owners_go() {
        let dir = tempfile::tempdir().unwrap();
        let backend: Arc<dyn Backend> = Arc::new(SledBackend::open(StoreOptions::new(dir.path().join("s"))).unwrap());
        let registry = Arc::new(ArcSwap::from_pointee(Registry::builtin().unwrap()));
        let service = ResourceService::new(backend.clone(), registry, Options::default());
        let id = |kind: mortise_resource::types::Gvk, name: &str| pb::Id {
            name: name.into(),
            r#type: Some(kind.to_pb()),
            tenancy: Some(pb::Tenancy::default()),
            uid: ids::ulid(),
        };
        let host = Caller::host(Consistency::Consistent);
        let owner = pb::Resource { id: Some(id(types::partition(), "owner")), ..pb::Resource::default() };
        let owner = pb::Resource { id: owner.id.map(|id| pb::Id { uid: String::new(), ..id }), ..owner };
        let written = service.write(&host, pb::WriteRequest { resource: Some(owner) }).await.unwrap();
        let owner = written.resource.decode_id().unwrap().unwrap();
        let reference =
            OwnerReference { kind: "tenancy/Partition".into(), name: "owner".into(), ..OwnerReference::default() };
        let registry = service.types();
        for (kind, name, owned, references) in [
            (types::policy(), "owned", true, vec![]),
            (types::policy(), "referring", false, vec![reference.clone()]),
            (types::token(), "owned", true, vec![]),
            (types::token(), "referring", false, vec![reference]),
        ] {
            let mut child = pb::Resource {
                id: Some(id(kind.clone(), name)),
                owner: owned.then(|| owner.clone()),
                meta: Some(Box::new(Meta { owner_references: references, ..Meta::default() })),
                generation: ids::ulid(),
                ..pb::Resource::default()
            };
            let resource_type = registry.resolve_type(&kind).unwrap();
            child.references = records(&registry, resource_type, &child, None, Strictness::Lenient).unwrap();
            backend.write_cas(child).await.unwrap();
        }
        backend.delete_cas(&owner, written.resource.version()).await.unwrap();
        let deletion = DeletedOwner {
            key: ResourceKey::from(&owner),
            deletion: owner.uid.clone(),
            region: String::new(),
            deleted_at: None,
            id: owner,
        };
        for _ in 0..2 {
            service.deletions.delete_children(&deletion).await.unwrap();
        }
        for name in ["owned", "referring"] {
            let read = async |kind| {
                backend.read(Consistency::Consistent, &pb::Id { uid: String::new(), ..id(kind, name) }).await
            };
            let policy = read(types::policy()).await.unwrap();
            assert_eq!(policy.meta.unwrap_or_default().owner_references, [], "{name}");
            assert!(matches!(read(types::token()).await, Err(StoreError::NotFound)), "{name}: the token is gone");
        }
    }

    /// The emptying of a namespace that another server has removed meanwhile leaves what is in a new one of its name.
    #[tokio::test]
    async fn the_content_of_a_new_namespace_stays() {
        let dir = tempfile::tempdir().unwrap();
        let backend: Arc<dyn Backend> = Arc::new(SledBackend::open(StoreOptions::new(dir.path().join("s"))).unwrap());
        let registry = Arc::new(ArcSwap::from_pointee(Registry::builtin().unwrap()));
        let service = ResourceService::new(backend.clone(), registry, Options::default());
        let place = |namespace: &str| Some(pb::Tenancy { partition: "p".into(), namespace: namespace.into() });
        let put = async |kind: mortise_resource::types::Gvk, tenancy, name: &str, uid: &str| {
            let id = pb::Id { r#type: Some(kind.to_pb()), tenancy, name: name.into(), uid: uid.into() };
            let resource = pb::Resource { id: Some(id), generation: ids::ulid(), ..pb::Resource::default() };
            backend.write_cas(resource).await.unwrap()
        };
        let unit = put(types::namespace(), place(""), "n", "new").await;
        let content = mortise_resource::types::Gvk::new("test", "v1", "Thing");
        for (name, finalizers) in [("plain", ""), ("held", "a")] {
            let stored = put(content.clone(), place("n"), name, name).await;
            if !finalizers.is_empty() {
                let mut held = stored.clone();
                held.metadata.insert(meta::FINALIZERS.into(), finalizers.into());
                backend.write_cas(held).await.unwrap();
            }
            let id = stored.id.unwrap();
            let (tenancy, read) = (place("n").unwrap(), async || backend.read(Consistency::Consistent, &id).await);
            let before = read().await.unwrap();
            assert!(!service.deletions.delete_for(&id, Purpose::Empty(&tenancy, "old")).await.unwrap());
            assert_eq!(read().await.unwrap(), before, "{name} is not of the old namespace");
            let is_gone = service.deletions.delete_for(&id, Purpose::Empty(&tenancy, "new")).await.unwrap();
            assert_eq!((is_gone, read().await.is_err()), (name == "plain", name == "plain"));
            assert!(name == "plain" || meta::is_marked(&read().await.unwrap().metadata));
        }
        assert_eq!(ids::uid_of(&unit), "new");
    }
}
