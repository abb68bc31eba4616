//! What depends on what, and what a deletion would do (`mortise.v1.OwnershipService`).
//!
//! Nothing here is a private way around access: what the caller may not read is counted, and not named.
//!
//! # Limits
//! [`MAX_LINKS`] links in each direction, [`MAX_DEPTH`] from the resource, [`MAX_LOOKED_AT`] resources looked at; a plan as
//! far as a deletion may reach, and as many of those that follow. While an answer is gathered it counts against
//! `service.list_bytes`, by the bytes that it may come to ([`TREE_BYTES`], [`PLAN_BYTES`]).

use std::collections::{BTreeSet, VecDeque};

use mortise_resource::{
    EncodedResource, Error,
    authorizer::Verb,
    data::{
        DeleteStep, GetTreeRequest, GetTreeResponse, OnDelete, PlanDeleteRequest, PlanDeleteResponse,
        SetBlockDeletionRequest, SetBlockDeletionResponse, TreeLink, delete_step::Action, tree_link::By,
    },
    pb,
};
use mortise_store::{Consistency, Cursor, StoreError};

use crate::{
    call::{
        audit::{Call, Method},
        caller::Caller,
        fair::Share,
        request_id,
        store_fault::{cas_failure, store_fault},
    },
    deletion::plan::{DeletionPlan, Fate, Purpose},
    references::key::ResourceKey,
    registry::Registry,
    rules::{
        hooks::RequestHooks,
        read::{is_readable, read_checked},
        region,
    },
    service::ResourceService,
};

/// Links in each direction.
const MAX_LINKS: usize = 1_000;
/// Resources that are looked at, those that the caller may not read included.
const MAX_LOOKED_AT: usize = 10_000;
/// Bytes of a tree: two ids for each link.
const TREE_BYTES: usize = 4 << 20;
/// Bytes of a plan.
const PLAN_BYTES: usize = 16 << 20;
/// How far from the resource.
const MAX_DEPTH: u32 = 16;
/// How far, if nothing else is asked for.
const DEPTH: u32 = 3;
/// What a reference may be, for whom all of them are to be found.
const EVERY: [OnDelete; 7] = [
    OnDelete::Unspecified,
    OnDelete::Block,
    OnDelete::Unset,
    OnDelete::Cascade,
    OnDelete::AsyncUnset,
    OnDelete::AsyncCascade,
    OnDelete::AllowDangling,
];

impl ResourceService {
    /// What a resource depends on, and what depends on it.
    ///
    /// # Errors
    /// Those of Read. `ResourceExhausted`: too many wait for room.
    pub async fn get_tree(&self, caller: &Caller, request: GetTreeRequest) -> Result<GetTreeResponse, Error> {
        let mut call = Call::begin(&self.core, caller, Method::GetTree).await?;
        call.about(request.id.as_ref());
        let answer = self.tree(caller, request).await;
        call.end(answer).await
    }

    async fn tree(&self, caller: &Caller, request: GetTreeRequest) -> Result<GetTreeResponse, Error> {
        if request.depth > MAX_DEPTH {
            return Err(Error::invalid(format!("depth must be at most {MAX_DEPTH}, got: {}", request.depth)));
        }
        let depth = if request.depth == 0 { DEPTH } else { request.depth };
        let _share = self.share_of_lists(caller, TREE_BYTES).await?;
        let root = read_checked(&self.core, caller, pb::ReadRequest { id: request.id }).await?;
        let registry = self.types();
        let mut walk =
            Walk { service: self, registry: &registry, caller, found: GetTreeResponse::default(), looked_at: 0 };
        walk.up(root.clone(), depth).await?;
        walk.down(root, depth).await?;
        Ok(walk.found)
    }

    /// Room for an answer among the lists, which is waited for.
    async fn share_of_lists(&self, caller: &Caller, bytes: usize) -> Result<Share, Error> {
        self.lists.acquire(caller.turn(), self.lists.total().min(bytes)).await.map_err(|e| self.no_room(e))
    }

    /// What a deletion would do.
    ///
    /// # Errors
    /// Those of GetTree. `FailedPrecondition`: it reaches too many resources.
    pub async fn plan_delete(&self, caller: &Caller, request: PlanDeleteRequest) -> Result<PlanDeleteResponse, Error> {
        let mut call = Call::begin(&self.core, caller, Method::PlanDelete).await?;
        call.about(request.id.as_ref());
        let answer = self.deletion_planned(caller, request).await;
        call.end(answer).await
    }

    async fn deletion_planned(&self, caller: &Caller, request: PlanDeleteRequest) -> Result<PlanDeleteResponse, Error> {
        // Before the place of a large plan, which nobody has who waits for this.
        let _share = self.share_of_lists(caller, PLAN_BYTES).await?;
        let root = read_checked(&self.core, caller, pb::ReadRequest { id: request.id }).await?;
        let registry = self.types();
        let plan = self.plan_deletion(&registry, root, Purpose::Show).await?;
        let mut shown =
            Shown { service: self, registry: &registry, caller, answer: PlanDeleteResponse::default(), looked_at: 0 };
        shown.answer.is_blocked = plan.is_blocked();
        shown.answer.is_cut = plan.is_later_cut;
        shown.show(plan).await?;
        Ok(shown.answer)
    }

    /// Sets whether a resource may be deleted.
    ///
    /// # Errors
    /// `PermissionDenied`. `NotFound`. `Aborted`: the version is not the stored one.
    pub async fn change_block_deletion(
        &self,
        caller: &Caller,
        request: SetBlockDeletionRequest,
    ) -> Result<SetBlockDeletionResponse, Error> {
        let mut call = Call::begin(&self.core, caller, Method::SetBlockDeletion).await?;
        call.about(request.id.as_ref());
        let answer = self.block_deletion_changed(caller, request).await;
        call.end(answer).await
    }

    async fn block_deletion_changed(
        &self,
        caller: &Caller,
        request: SetBlockDeletionRequest,
    ) -> Result<SetBlockDeletionResponse, Error> {
        let registry = self.types();
        let (id, kind) = request_id::complete(&registry, caller, request.id)?;
        kind.check_deletable()?;
        let stored = match self.core.backend.read(Consistency::Consistent, &id).await {
            Ok(stored) => stored,
            Err(e @ StoreError::NotFound) => return Err(Error::not_found(e.to_string())),
            Err(e @ StoreError::GroupVersionMismatch { .. }) => return Err(Error::invalid(e.to_string())),
            Err(e) => return Err(store_fault("failed read", &e)),
        };
        let mut seen = stored.clone();
        let mut hooks = RequestHooks::new(kind, caller);
        hooks.upgrade(&mut seen).await?;
        hooks.authorize_write(Verb::Write, &seen, "failed write acl").await?;
        hooks.release();
        region::check_owner(&self.core, &stored)?;
        if !request.version.is_empty() && request.version != stored.version {
            return Err(cas_failure());
        }
        let resource = self.set_block_deletion(stored, request.block_deletion).await?;
        Ok(SetBlockDeletionResponse { resource: Some(resource) })
    }
}

/// A walk along links.
struct Walk<'w> {
    service: &'w ResourceService,
    registry: &'w Registry,
    caller: &'w Caller,
    found: GetTreeResponse,
    looked_at: usize,
}

impl Walk<'_> {
    /// Counts a resource that is looked at, and says whether there were enough.
    fn is_at_the_bound(&mut self) -> bool {
        self.looked_at += 1;
        self.found.is_cut |= self.looked_at > MAX_LOOKED_AT;
        self.looked_at > MAX_LOOKED_AT
    }

    async fn up(&mut self, root: EncodedResource, depth: u32) -> Result<(), Error> {
        let mut seen = BTreeSet::from([ResourceKey::from(root.id())]);
        let mut open = VecDeque::from([(ResourceKey::from(root.id()), 1)]);
        while let Some((from, distance)) = open.pop_front() {
            let Some(from) = self.service.at(&from).await.map_err(|e| failed(&e))? else { continue };
            let dependent = from.decode_id()?;
            let owner = from.decode_owner()?.map(|owner| (ResourceKey::from(&owner), By::Owner(true), None));
            let records = from.references()?;
            let recorded = records.iter().map(|record| match record.field.as_str() {
                "" => (ResourceKey::from(record), By::OwnerReference(true), None),
                field => (ResourceKey::from(record), By::Field(field.to_owned()), Some(record.on_delete())),
            });
            for (key, by, on_delete) in owner.into_iter().chain(recorded) {
                if self.is_at_the_bound() {
                    return Ok(());
                }
                let target = self.service.at(&key).await.map_err(|e| failed(&e))?;
                if let Some(target) = &target
                    && !is_readable(self.registry, self.caller, target).await
                {
                    self.found.hidden = self.found.hidden.saturating_add(1);
                    continue;
                }
                if self.found.up.len() >= MAX_LINKS {
                    self.found.is_cut = true;
                    return Ok(());
                }
                let id = match &target {
                    Some(target) => target.decode_id()?,
                    None => Some(key.id()),
                };
                self.found.up.push(link(dependent.clone(), id, by, on_delete, distance));
                if target.is_some() && distance < depth && seen.insert(key.clone()) {
                    open.push_back((key, distance + 1));
                }
            }
        }
        Ok(())
    }

    async fn down(&mut self, root: EncodedResource, depth: u32) -> Result<(), Error> {
        let mut seen = BTreeSet::from([ResourceKey::from(root.id())]);
        let mut open = VecDeque::from([(ResourceKey::from(root.id()), 1)]);
        while let Some((from, distance)) = open.pop_front() {
            let Some(from) = self.service.at(&from).await.map_err(|e| failed(&e))? else { continue };
            let (key, target) = (ResourceKey::from(from.id()), from.decode_id()?.unwrap_or_default());
            for kind in self.registry.referring_to(&key.group, &key.kind) {
                self.service.records_of(kind).await?;
            }
            let backend = &self.service.core.backend;
            let mut scans = vec![(backend.scan_owned(&target).await.map_err(|e| failed(&e))?, None)];
            for on_delete in EVERY {
                let scan = backend.scan_referrers(&key.expected(), on_delete).await;
                scans.push((scan.map_err(|e| failed(&e))?, Some(on_delete)));
            }
            for (mut scan, on_delete) in scans {
                while let Some(page) = scan.next().await.map_err(|e| failed(&e))? {
                    for dependent in page {
                        if self.is_at_the_bound() {
                            return Ok(());
                        }
                        if !is_readable(self.registry, self.caller, &dependent).await {
                            self.found.hidden = self.found.hidden.saturating_add(1);
                            continue;
                        }
                        if self.found.down.len() >= MAX_LINKS {
                            self.found.is_cut = true;
                            return Ok(());
                        }
                        let (by, on_delete) = match on_delete {
                            None => (By::Owner(true), None),
                            Some(OnDelete::Unspecified) => (By::OwnerReference(true), None),
                            Some(how) => (By::Field(field_of(&dependent, &key, how)?), Some(how)),
                        };
                        let id = dependent.decode_id()?;
                        self.found.down.push(link(id, Some(target.clone()), by, on_delete, distance));
                        let key = ResourceKey::from(dependent.id());
                        if distance < depth && seen.insert(key.clone()) {
                            open.push_back((key, distance + 1));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn link(
    dependent: Option<pb::Id>,
    target: Option<pb::Id>,
    by: By,
    on_delete: Option<OnDelete>,
    distance: u32,
) -> TreeLink {
    TreeLink { dependent, target, on_delete: on_delete.unwrap_or_default().into(), distance, by: Some(by) }
}

fn field_of(referrer: &EncodedResource, target: &ResourceKey, on_delete: OnDelete) -> Result<String, Error> {
    let records = referrer.references()?;
    let record = records.into_iter().find(|one| one.on_delete() == on_delete && ResourceKey::from(one) == *target);
    Ok(record.map(|record| record.field).unwrap_or_default())
}

fn failed(error: &StoreError) -> Error {
    store_fault("failed to follow references", error)
}

/// A plan as its caller may see it.
struct Shown<'s> {
    service: &'s ResourceService,
    registry: &'s Registry,
    caller: &'s Caller,
    answer: PlanDeleteResponse,
    looked_at: usize,
}

impl Shown<'_> {
    async fn show(&mut self, plan: DeletionPlan) -> Result<(), Error> {
        let DeletionPlan { doomed, unset, blocks, protected, later, .. } = plan;
        for one in &doomed {
            let action = if one.fate == Fate::Remove { Action::Delete } else { Action::Mark };
            let (because, field) = one.because.clone().unzip();
            self.step(action, &one.stored, because, field.unwrap_or_default()).await?;
        }
        for (referrer, targets) in unset.values() {
            for target in targets {
                let field = field_of(referrer, target, OnDelete::Unset)?;
                self.step(Action::Unset, referrer, Some(target.clone()), field).await?;
            }
        }
        for one in &protected {
            self.step(Action::Block, one, None, String::new()).await?;
        }
        for one in &blocks {
            self.step(Action::Block, &one.referrer, Some(one.target.clone()), one.field.clone()).await?;
        }
        for one in &later {
            let action = if one.on_delete == OnDelete::AsyncUnset { Action::UnsetLater } else { Action::DeleteLater };
            self.step(action, &one.referrer, Some(one.target.clone()), one.field.clone()).await?;
        }
        for one in &doomed {
            let key = ResourceKey::from(one.stored.id());
            let id = one.stored.decode_id()?.unwrap_or_default();
            let owned = self.service.core.backend.scan_owned(&id).await.map_err(|e| failed(&e))?;
            self.steps(Action::DeleteLater, owned, &key).await?;
            let dependents = self.service.core.backend.scan_referrers(&key.expected(), OnDelete::Unspecified).await;
            self.steps(Action::ReleaseLater, dependents.map_err(|e| failed(&e))?, &key).await?;
        }
        Ok(())
    }

    async fn steps(&mut self, action: Action, mut of: Box<dyn Cursor>, because: &ResourceKey) -> Result<(), Error> {
        while let Some(page) = of.next().await.map_err(|e| failed(&e))? {
            for one in page {
                self.looked_at += 1;
                if self.looked_at > MAX_LOOKED_AT {
                    self.answer.is_cut = true;
                    return Ok(());
                }
                self.step(action, &one, Some(because.clone()), String::new()).await?;
            }
        }
        Ok(())
    }

    async fn step(
        &mut self,
        action: Action,
        resource: &EncodedResource,
        because: Option<ResourceKey>,
        field: String,
    ) -> Result<(), Error> {
        if !is_readable(self.registry, self.caller, resource).await {
            self.answer.hidden = self.answer.hidden.saturating_add(1);
            return Ok(());
        }
        let because = match because {
            Some(key) => match self.service.at(&key).await.map_err(|e| failed(&e))? {
                Some(found) if is_readable(self.registry, self.caller, &found).await => found.decode_id()?,
                _ => None,
            },
            None => None,
        };
        let step = DeleteStep { action: action.into(), id: resource.decode_id()?, because, field };
        self.answer.steps.push(step);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use arc_swap::ArcSwap;
    use mortise_resource::{Code, authorizer::AllowAll, types};
    use mortise_store::{Backend, Options as StoreOptions, SledBackend};
    use tokio::time::timeout;

    use super::*;
    use crate::{call::caller::Source, core::options::Options};

    #[tokio::test]
    async fn trees_and_plans_wait_for_room_among_the_lists() {
        let dir = tempfile::tempdir().unwrap();
        let store = SledBackend::open(StoreOptions::new(dir.path().join("store"))).unwrap();
        let backend: Arc<dyn Backend> = Arc::new(store);
        let registry = Arc::new(ArcSwap::from_pointee(Registry::builtin().unwrap()));
        let options = Options { max_waiting: 1, ..Options::default() };
        let service = ResourceService::new(backend, registry, options);
        let caller = |n: u64| Caller::new(Arc::new(AllowAll), Consistency::Consistent).at(Source::of_number(n));
        let id = Some(pb::Id {
            r#type: Some(types::partition().to_pb()),
            tenancy: Some(pb::Tenancy::default()),
            name: "nobody".into(),
            uid: String::new(),
        });
        let all = service.lists.acquire(caller(1).turn(), service.lists.total()).await.unwrap();
        let (first, second) = (caller(2), caller(3));
        let mut tree = Box::pin(service.get_tree(&first, GetTreeRequest { id: id.clone(), depth: 1 }));
        let plan = Box::pin(service.plan_delete(&second, PlanDeleteRequest { id }));
        let moment = Duration::from_millis(50);
        assert!(timeout(moment, &mut tree).await.is_err(), "it waits");
        let refused = plan.await.unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted, "{refused}");
        assert!(refused.message.contains("service.max_waiting"), "{refused}");
        drop(all);
        assert_eq!(tree.await.unwrap_err().code, Code::NotFound, "it is its turn");
    }
}
