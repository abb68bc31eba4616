//! Upkeep of owner references (docs/ownership.md): binds the entries of `meta.owner_references`, drops entries that
//! hold no longer, and deletes a resource with its last entry. The resource with the entries is the *dependent*.
//!
//! # Contract
//! An entry is bound to the incarnation of its owner that was there first, by uid. It holds while that one exists, and,
//! with `requires_owner_reference`, while its data refers to the dependent. The owner lets go when it is deleted, or no
//! longer refers. An entry that has not held within `service.owner_grace_ms` is dropped, and counts as no owner that
//! let go. An owner that the writer of the entry may not read counts as missing, so that the fate of a resource tells
//! its writer nothing about others. Absence here says nothing about an owner of another region: the tombstone of its
//! replica does.
//!
//! When the last entry goes, the last owner that let go decides: the dependent is deleted, unless `unset_on_delete` of
//! that entry keeps it. Owners that go by one deletion, with all their consequences, let go together, in any
//! order; one `unset_on_delete` among them keeps the dependent. So an entry whose owner is gone leaves a record until
//! the last entry goes. The rule is [`judge`], which plans use, too.
//!
//! All pending work is in the store: as a tombstone, or as an `mortise.v1.OwnershipCheck`. Deletions are logged, and
//! recorded in the audit log with the entry that decided.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use mortise_controller::{Context, Definition, Outcome, ReconcileError, Reconciler, Request};
use mortise_resource::{
    authorizer::Authorizer,
    data::{OnDelete, OwnershipCheck, ReferenceRecord},
    goten::{Meta, OwnerReference},
    meta, pb,
    resource_meta::ulid_time,
    types,
};
use mortise_store::{Batch, Consistency, Expectation, ExpectedId, Mutation, StoreError};
use prost::Message as _;
use prost_types::Timestamp;

use super::{
    deletions::{Deletions, GROUP_COMMIT_CHANGES},
    error::RemovalError,
    plan::Purpose,
};
use crate::{
    call::{Call, Origin, Remote, Surface},
    core::{
        Core, MAX_CAS_ATTEMPTS,
        durations::CHANGED_RESOURCE_WAIT,
        ids::{self, tenancy_of, type_of},
    },
    references::{
        BoundOwner, ResourceKey, Strictness, is_elsewhere, is_past, is_unreadable_owner, owner_of, owner_record,
        records::records,
    },
    registry::Registry,
    rules::{access_rules, region, server_meta, tombstone},
};

/// An owner whose tombstone is being worked off.
pub(super) struct DeletedOwner {
    pub(super) id: pb::Id,
    pub(super) key: ResourceKey,
    /// Uid of the resource whose deletion led to this one.
    pub(super) deletion: String,
    /// Its region; empty for none.
    pub(super) region: String,
    /// Time of the deletion; `None` if it is unknown.
    pub(super) deleted_at: Option<Timestamp>,
}

/// The fate of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryFate {
    Stays,
    /// Its owner let go.
    LetGo,
    /// It never held.
    NeverHeld,
}

/// The fate of a resource that loses entries.
pub(super) enum DependentFate {
    /// It loses none.
    Unchanged,
    /// It stays with the other entries, or with none.
    Stays(Vec<OwnerReference>, Vec<ReferenceRecord>),
    /// It is deleted; the text names the entry that decided.
    Goes(String),
}

impl DeletedOwner {
    /// Reads a tombstone; `None` if it names no incarnation.
    pub(super) fn of(content: pb::Tombstone, tombstone: &pb::Resource) -> Option<Self> {
        let pb::Tombstone { owner, deletion, region } = content;
        let id = owner.filter(|owner| !owner.uid.is_empty())?;
        let deletion = if deletion.is_empty() { id.uid.clone() } else { deletion };
        let at = match tombstone::is_of_absent(tombstone) {
            // Before every entry.
            true => Some(Timestamp::default()),
            false => tombstone.id.as_ref().and_then(|id| ulid_time(&id.uid)),
        };
        Some(Self { key: ResourceKey::from(&id), id, deletion, region, deleted_at: at })
    }

    /// Returns the fate of an entry for this owner, once it is gone.
    pub(super) fn fate(
        &self,
        core: &Core,
        entry: &OwnerReference,
        key: &ResourceKey,
        known: Option<&ReferenceRecord>,
    ) -> EntryFate {
        if *key != self.key || known.is_some_and(is_unreadable_owner) {
            return EntryFate::Stays;
        }
        let bound = known.map(|known| known.owner_uid.as_str()).unwrap_or_default();
        if !bound.is_empty() {
            return if bound == self.id.uid { EntryFate::LetGo } else { EntryFate::Stays };
        }
        // Not bound: the owner came after the entry, or the entry is from before there were uids.
        let region = if self.region.is_empty() { core.region().unwrap_or_default() } else { &self.region };
        let is_other = (!entry.uid.is_empty() && entry.uid != self.id.uid)
            || (core.region().is_some() && !entry.region.is_empty() && entry.region != region);
        let order = |time: Timestamp| (time.seconds, time.nanos);
        let since = known.and_then(|known| known.since).map(order).unwrap_or_default();
        let was_there = self.deleted_at.is_none_or(|at| since < order(at));
        match is_other || !was_there {
            true => EntryFate::Stays,
            // Its owner was not seen to refer to the resource.
            false if entry.requires_owner_reference => EntryFate::NeverHeld,
            false => EntryFate::LetGo,
        }
    }
}

/// Decides about a resource that loses entries, by the fate of each, in the deletion of the resource with this uid.
pub(super) fn judge(
    registry: &Registry,
    stored: &pb::Resource,
    deletion: &str,
    fate: &(dyn Fn(&OwnerReference, &ResourceKey, Option<&ReferenceRecord>) -> EntryFate + Sync),
) -> DependentFate {
    let holder = stored.id.as_ref().map(tenancy_of).cloned().unwrap_or_default();
    let mut past: Vec<ReferenceRecord> = stored.references.iter().filter(|record| is_past(record)).cloned().collect();
    let (mut kept, mut loses) = (Vec::new(), false);
    for entry in stored.meta.iter().flat_map(|meta| &meta.owner_references) {
        let key = owner_of(registry, entry, &holder);
        let fate = fate(entry, &key, owner_record(&stored.references, &key));
        loses |= fate != EntryFate::Stays;
        match fate {
            EntryFate::Stays => kept.push(entry.clone()),
            EntryFate::NeverHeld => {}
            EntryFate::LetGo => past.push(ReferenceRecord {
                group: key.group,
                kind: key.kind,
                partition: key.partition,
                namespace: key.namespace,
                name: key.name,
                on_delete: OnDelete::AllowDangling.into(),
                let_go_by: deletion.to_owned(),
                unset_on_delete: entry.unset_on_delete,
                ..ReferenceRecord::default()
            }),
        }
    }
    if !loses {
        return DependentFate::Unchanged;
    }
    let outlives = stored.id.as_ref().is_some_and(access_rules::outlives_owners);
    let last = past.last().filter(|_| kept.is_empty() && !outlives);
    match last {
        Some(last) if !past.iter().any(|one| one.let_go_by == last.let_go_by && one.unset_on_delete) => {
            DependentFate::Goes(ResourceKey::from(last).to_string())
        }
        _ => DependentFate::Stays(kept, past),
    }
}

/// The collector as a caller: its text names the entry that decided.
struct CollectorCaller(String);

impl Authorizer for CollectorCaller {
    fn is_allowed(&self, _permission: &str, _name: &str) -> bool {
        false
    }

    fn caller(&self) -> &str {
        &self.0
    }

    fn fingerprint(&self) -> u64 {
        0
    }
}

/// The controller of checks.
struct Ownership(Deletions);

#[async_trait]
impl Reconciler for Ownership {
    async fn reconcile(&self, context: &Context, request: Request) -> Result<Outcome, ReconcileError> {
        let id = request.id(context.managed());
        self.0.process_check(&id).await.map_err(|e| ReconcileError::because(format!("owner references: {e}"), e))
    }
}

impl Deletions {
    /// Returns the controller that checks owner references that may have become invalid.
    pub(crate) fn ownership(&self) -> Definition {
        let controller = Arc::new(Ownership(self.clone()));
        Definition::new("ownership", types::ownership_check().to_pb(), controller).parallel(GROUP_COMMIT_CHANGES)
    }

    pub(super) async fn process_check(&self, id: &pb::Id) -> Result<Outcome, RemovalError> {
        let check = match self.core.backend.read(Consistency::Consistent, id).await {
            Ok(check) => check,
            Err(StoreError::NotFound) => return Ok(Outcome::Done),
            Err(e) => return Err(e.into()),
        };
        let content = check.data.as_ref().and_then(|data| OwnershipCheck::decode(data.value.as_slice()).ok());
        let OwnershipCheck { resource, due } = content.unwrap_or_default();
        let wait = until(due.unwrap_or_default());
        if !wait.is_zero() {
            return Ok(Outcome::After(wait));
        }
        let dependent = ResourceKey::from(&resource.unwrap_or_default());
        let next = self.check_owners(&dependent).await?;
        match next {
            Some(wait) => Ok(Outcome::After(wait)),
            None => {
                // The check owns nothing, so it needs no tombstone.
                match self.core.backend.delete_cas(check.id.as_ref().unwrap_or(id), &check.version).await {
                    Ok(()) | Err(StoreError::CasFailure { .. }) => Ok(Outcome::Done),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Binds the entries of a resource that hold, and drops those that have been invalid for long enough. Returns the
    /// time of the next look.
    async fn check_owners(&self, dependent: &ResourceKey) -> Result<Option<Duration>, RemovalError> {
        let registry = self.core.types();
        let stored = dependent.stored(&self.core).await?.filter(|stored| !region::is_foreign(&self.core, stored));
        let Some(stored) = stored else { return Ok(None) };
        let mut stored = stored.decode()?;
        let holder = tenancy_of(&stored.id.clone().unwrap_or_default()).clone();
        let (mut gone, mut never, mut next) = (Vec::new(), Vec::new(), None::<Duration>);
        let mut bound = Vec::new();
        for entry in stored.meta.iter().flat_map(|meta| &meta.owner_references) {
            let key = owner_of(&registry, entry, &holder);
            let known = owner_record(&stored.references, &key);
            let was_bound = known.is_some_and(|known| !known.owner_uid.is_empty());
            let counts = !known.is_some_and(is_unreadable_owner);
            let owner = match counts {
                true => self.references.owner_for(&registry, entry, known, &key, dependent).await?,
                false => None,
            };
            if let Some(owner) = owner {
                bound.extend((!was_bound).then_some((key, owner)));
                continue;
            }
            // A bound owner that is absent is left to its tombstone. One that is there does not refer to the dependent
            // any more.
            let is_there = async || {
                let found = key.stored(&self.core).await?;
                Ok::<_, StoreError>(
                    found.is_some_and(|found| known.is_some_and(|known| found.uid() == known.owner_uid)),
                )
            };
            if was_bound && counts {
                if is_there().await? {
                    gone.push(key);
                }
                continue;
            }
            if counts && is_elsewhere(&self.core, entry, known) {
                continue;
            }
            let since = known.and_then(|record| record.since).unwrap_or_default();
            match until(after(since, self.core.options.owner_grace)) {
                Duration::ZERO => never.push(key),
                wait => next = Some(next.map_or(wait, |other| other.min(wait))),
            }
        }
        if !bound.is_empty() && !self.bind(&mut stored, bound).await? {
            return Ok(Some(CHANGED_RESOURCE_WAIT));
        }
        if !gone.is_empty() || !never.is_empty() {
            // The findings of one check count as one deletion.
            let deletion = ids::ulid();
            self.release(dependent, &deletion, &|_, key, _| match (gone.contains(key), never.contains(key)) {
                (true, _) => EntryFate::LetGo,
                (false, true) => EntryFate::NeverHeld,
                (false, false) => EntryFate::Stays,
            })
            .await?;
        }
        Ok(next)
    }

    /// Stores the owners for which entries hold, without a new version. Returns false if something has changed.
    async fn bind(
        &self,
        stored: &mut pb::Resource,
        bound: Vec<(ResourceKey, BoundOwner)>,
    ) -> Result<bool, RemovalError> {
        let mut expect = Vec::new();
        for (key, BoundOwner { uid, region }) in bound {
            let is_its = |record: &&mut ReferenceRecord| {
                record.field.is_empty() && !is_past(record) && ResourceKey::from(&**record) == key
            };
            if let Some(record) = stored.references.iter_mut().find(is_its) {
                record.owner_uid.clone_from(&uid);
                record.owner_region = region;
                expect.push(Expectation {
                    id: ExpectedId { uid, ..key.expected() },
                    generation: None,
                    is_unmarked: false,
                });
            }
        }
        let batch = Batch { expect, ..Batch::single(Mutation::Rewrite(Box::new(stored.clone()))) };
        match self.core.backend.commit(batch).await {
            Ok(done) => Ok(done.into_iter().any(|rewritten| rewritten.is_some())),
            Err(StoreError::ExpectationFailed { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Drops entries from a resource, by their fates, and deletes it if [`judge`] decides so.
    async fn release(
        &self,
        dependent: &ResourceKey,
        deletion: &str,
        fate: &(dyn Fn(&OwnerReference, &ResourceKey, Option<&ReferenceRecord>) -> EntryFate + Sync),
    ) -> Result<(), RemovalError> {
        let registry = self.core.types();
        let mut attempts = 0;
        loop {
            let stored = dependent.stored(&self.core).await?.filter(|stored| !region::is_foreign(&self.core, stored));
            let Some(stored) = stored else { return Ok(()) };
            let stored = stored.decode()?;
            if meta::is_marked(&stored.metadata) {
                return Ok(());
            }
            attempts += 1;
            let outcome = match judge(&registry, &stored, deletion, fate) {
                DependentFate::Unchanged => return Ok(()),
                // Deletes only this version: with another owner the resource would stay.
                DependentFate::Goes(entry) => self.collect(&registry, stored, &entry, deletion).await,
                DependentFate::Stays(kept, past) => {
                    let next = without_owners(&registry, stored, kept, past)?;
                    self.core.backend.write_cas(next).await.map(drop).map_err(RemovalError::from)
                }
            };
            match outcome {
                Err(error) if error.is_conflict() && attempts < MAX_CAS_ATTEMPTS => {}
                other => return other,
            }
        }
    }

    /// Deletes a resource without owners, and records that with the entry that decided.
    async fn collect(
        &self,
        registry: &Registry,
        stored: pb::Resource,
        entry: &str,
        deletion: &str,
    ) -> Result<(), RemovalError> {
        let (id, before) = (stored.id.clone().unwrap_or_default(), stored.generation.clone());
        let caller: Arc<dyn Authorizer> = Arc::new(CollectorCaller(format!("owner reference {entry}")));
        let origin = Arc::new(Origin::new(Surface::Collector, Remote::Unknown, None));
        let call = Call::begin_unrated(&self.core, &caller, Some(&origin), "Collect".into(), true).await;
        let mut call = call.map_err(RemovalError::Refused)?;
        match self.delete_version(registry, stored, Purpose::Follow(deletion)).await {
            Ok(is_gone) => {
                let what = types::describe(&id);
                tracing::info!(is_gone, "{what} is deleted: its last owner, {entry}, is gone");
                call.changed(Some(&id), &before, "");
                call.end_with(None, "OK").await.map_err(RemovalError::Refused)
            }
            Err(error) => {
                call.drop_unused();
                Err(error)
            }
        }
    }

    /// Drops the entries for a deleted owner from all resources that have one.
    pub(super) async fn release_dependents(&self, owner: &DeletedOwner) -> Result<(), RemovalError> {
        let mut outcome = Ok(());
        let mut dependents = self.core.backend.scan_referrers(&owner.key.expected(), OnDelete::Unspecified).await?;
        while let Some(page) = dependents.next().await? {
            let released = stream::iter(page)
                .map(|dependent| async move {
                    let fate = |entry: &OwnerReference, key: &ResourceKey, known: Option<&ReferenceRecord>| {
                        owner.fate(&self.core, entry, key, known)
                    };
                    self.release(&ResourceKey::from(dependent.id()), &owner.deletion, &fate).await
                })
                .buffer_unordered(GROUP_COMMIT_CHANGES)
                .fold(Ok(()), async |so_far: Result<(), RemovalError>, result| so_far.and(result))
                .await;
            // A failed dependent does not keep the others.
            outcome = outcome.and(released);
        }
        outcome
    }
}

/// Returns a resource with these entries, and the records of past ones.
pub(super) fn without_owners(
    registry: &Registry,
    stored: pb::Resource,
    kept: Vec<OwnerReference>,
    past: Vec<ReferenceRecord>,
) -> Result<pb::Resource, RemovalError> {
    let kind = registry.resolve(&type_of(&stored.id.clone().unwrap_or_default())).map_err(RemovalError::Refused)?;
    let client = Meta { owner_references: kept, ..*stored.meta.clone().unwrap_or_default() };
    let mut next = stored.clone();
    next.generation = ids::ulid();
    server_meta::set(kind, &mut next, Some(&client), Some(&stored));
    let mut known = stored;
    known.references.retain(|record| !is_past(record));
    known.references.extend(past);
    next.references =
        records(registry, kind, &next, Some(&known), Strictness::Lenient).map_err(RemovalError::Refused)?;
    Ok(next)
}

/// Returns a time after another one.
fn after(mut time: Timestamp, wait: Duration) -> Timestamp {
    time.seconds = time.seconds.saturating_add(i64::try_from(wait.as_secs()).unwrap_or(0));
    time.nanos = time.nanos.saturating_add(wait.subsec_nanos().try_into().unwrap_or(0));
    time.normalize();
    time
}

/// Returns the time until a moment; zero if it has passed.
fn until(due: Timestamp) -> Duration {
    let now = ids::milliseconds();
    let seconds = due.seconds.saturating_sub(now.seconds);
    let nanos = seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(due.nanos) - i64::from(now.nanos));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}
