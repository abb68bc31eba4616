//! Copies of what other regions own: written here by [`ResourceService::apply_copies`] alone, as their owner says.
//!
//! # Contract
//! A copy has the uid, the generation and the meta of the owner's resource, and a version of this store; its
//! `meta.syncing` says where it came from, and which of the owner's versions it is. Changes are committed together with
//! the progress that covers them. A change that is not newer than the copy has no effect, so any of them may come twice.
//!
//! What is here under the same name and was not copied from the peer, in this incarnation, is never changed: that is a
//! conflict. What cannot be applied is held back by itself, and named in the progress; the rest goes on.
//!
//! # Limits
//! [`super::MAX_HELD_BACK`] names in a progress. Quotas hold as for writes.

use std::collections::{BTreeMap, HashSet};

use mortise_resource::{
    Code, EncodedResource, Error,
    data::{HeldBackReason, RegionProgress},
    goten::SyncingMeta,
    pb,
};
use mortise_store::{Batch, Consistency, Expectation, ExpectedId, Mutation, Query, StoreError, TypeKey};

use super::{
    enforce::{owning_region, syncing_of},
    incoming::{check, uid_number},
    progress::{hold_back, is_same_name},
    record::Change,
};
use crate::{
    read::tenancy_of, registry::Registry, removal, service::ResourceService, shards, store_fault::store_fault,
    tenancy::PlaceError,
};

/// Attempts of a commit that meets other changes.
const ATTEMPTS: u32 = 10;

/// What the owner did.
#[derive(Debug, Clone)]
pub enum CopyChange {
    /// It is so now.
    Put(Box<pb::Resource>),
    /// This incarnation is not there any more, or is not for this region.
    Remove {
        /// Its id, with the uid.
        id: pb::Id,
        /// Whether the owner deleted it; what it owns here is deleted then, too.
        deleted: bool,
    },
}

/// What became of changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// Copies that were written.
    pub written: u64,
    /// Copies that were removed.
    pub removed: u64,
    /// Resources that are held back.
    pub held_back: u64,
    /// Those of them that are in conflict with a resource of this region.
    pub conflicts: u64,
}

/// What a change comes to.
enum Decision {
    Nothing,
    Write(Vec<Mutation>, Vec<Expectation>, Change),
    Remove(Vec<Mutation>, Change),
    HoldBack(HeldBackReason, String),
}

/// What was done.
#[derive(Default)]
struct Done {
    sum: Copied,
    changes: Vec<Change>,
}

impl CopyChange {
    /// The id of what was changed.
    #[must_use]
    pub fn id(&self) -> pb::Id {
        match self {
            Self::Put(resource) => resource.id.clone().unwrap_or_default(),
            Self::Remove { id, .. } => id.clone(),
        }
    }
}

impl ResourceService {
    /// Applies changes that a peer told of one type, of each name what is there or any incarnations that are not, and
    /// stores the progress, in one commit. The names that are held back are noted in the progress. `anew` says that the
    /// peer's versions begin anew: a copy is then replaced by any other version.
    ///
    /// # Errors
    /// `Unavailable`: the audit log takes no records. `Aborted`: other changes came in between, in each of ten attempts.
    /// Faults of the store. What was applied then is
    /// not known; the same changes may come again.
    pub async fn apply_copies(
        &self,
        progress: &mut RegionProgress,
        changes: &[CopyChange],
        anew: bool,
    ) -> Result<Copied, Error> {
        if changes.is_empty() {
            let done = self.try_copies(progress, changes, anew, true).await;
            return done.map(|done| done.sum).map_err(|e| failed(&e));
        }
        let records = self.begin_copies(&progress.peer).await?;
        let done = match self.try_copies(progress, changes, anew, true).await {
            Err(e) if is_of_one(&e) => self.one_by_one(progress, changes, anew).await,
            done => done,
        };
        match done {
            Ok(Done { sum, changes }) => {
                records.end(self, &changes).await;
                Ok(sum)
            }
            Err(e) => {
                let error = failed(&e);
                records.fail(error.code).await;
                Err(error)
            }
        }
    }

    /// Applies each change by itself, since one of them is not to be had; the progress comes last.
    async fn one_by_one(
        &self,
        progress: &mut RegionProgress,
        changes: &[CopyChange],
        anew: bool,
    ) -> Result<Done, StoreError> {
        let mut all = Done::default();
        for change in changes {
            match self.try_copies(progress, std::slice::from_ref(change), anew, false).await {
                Ok(one) => {
                    all.sum = all.sum.plus(one.sum);
                    all.changes.extend(one.changes);
                }
                Err(e) if is_of_one(&e) => {
                    hold_back(progress, change, HeldBackReason::Store, e.to_string());
                    all.sum.held_back += 1;
                }
                Err(e) => return Err(e),
            }
        }
        self.try_copies(progress, &[], anew, true).await?;
        Ok(all)
    }

    /// Applies changes in one commit, with the progress or without.
    async fn try_copies(
        &self,
        progress: &mut RegionProgress,
        changes: &[CopyChange],
        anew: bool,
        stores_progress: bool,
    ) -> Result<Done, StoreError> {
        let registry = self.types();
        let mut attempts = 0;
        loop {
            let mut next = progress.clone();
            let (mut copied, mut mutations, mut made) = (Copied::default(), Vec::new(), Vec::new());
            let mut expect: BTreeMap<(String, String, String, String), Expectation> = BTreeMap::new();
            for change in changes {
                let id = change.id();
                next.held_back.retain(|held| !is_same_name(held.id.as_ref(), &id));
                match self.decide_copy(&registry, &next.peer, change, anew).await? {
                    Decision::Nothing => {}
                    Decision::Write(some, expected, change) => {
                        copied.written += 1;
                        made.push(change);
                        mutations.extend(some);
                        for one in expected {
                            let ExpectedId { type_key, partition, namespace, name, .. } = &one.id;
                            let key = (type_key.kind.clone(), partition.clone(), namespace.clone(), name.clone());
                            expect.insert(key, one);
                        }
                    }
                    Decision::Remove(some, change) => {
                        copied.removed += 1;
                        made.push(change);
                        mutations.extend(some);
                    }
                    Decision::HoldBack(reason, detail) => {
                        copied.held_back += 1;
                        copied.conflicts += u64::from(reason == HeldBackReason::Conflict);
                        hold_back(&mut next, change, reason, detail);
                    }
                }
            }
            if stores_progress {
                mutations.push(self.progress_mutation(&next).await?);
            }
            let batch = Batch { expect: expect.into_values().collect(), ..Batch::of_all(mutations).limited() };
            let committed = match batch.mutations.is_empty() {
                true => Ok(()),
                false => self.backend.commit(batch).await.map(drop),
            };
            attempts += 1;
            match committed {
                Err(StoreError::CasFailure { .. } | StoreError::WrongUid | StoreError::Unexpected { .. })
                    if attempts < ATTEMPTS => {}
                Err(e) => return Err(e),
                Ok(()) => {
                    *progress = next;
                    return Ok(Done { sum: copied, changes: made });
                }
            }
        }
    }

    /// Looks at what is stored, and says what a change comes to.
    async fn decide_copy(
        &self,
        registry: &Registry,
        peer: &str,
        change: &CopyChange,
        anew: bool,
    ) -> Result<Decision, StoreError> {
        let id = pb::Id { uid: String::new(), ..change.id() };
        let stored = match self.backend.read(Consistency::Consistent, &id).await {
            Ok(stored) => Some(stored),
            Err(StoreError::GroupVersionMismatch { stored, .. }) => Some(stored.decode()?),
            Err(StoreError::NotFound) => None,
            Err(e) => return Err(e),
        };
        let incoming = match change {
            CopyChange::Put(resource) => resource,
            CopyChange::Remove { id, deleted } => {
                return Ok(match stored {
                    Some(stored) if uid(&stored) == id.uid && copied_from(&stored) == peer => {
                        let change = Change { id: id.clone(), before: stored.generation.clone(), after: String::new() };
                        Decision::Remove(removal_of(&stored, *deleted), change)
                    }
                    _ => Decision::Nothing,
                });
            }
        };
        if let Some(stored) = &stored {
            let is_same = uid(stored) == uid(incoming);
            let is_copy = copied_from(stored) == peer;
            // What its former owner gave up is the same incarnation.
            let handed_over = is_same && (!copied_from(stored).is_empty() || owning_region(stored) == peer);
            if !is_copy && !handed_over {
                let owner = match owning_region(stored) {
                    "" => "no region".to_owned(),
                    owner => format!("region {owner:?}"),
                };
                let what = format!("a resource of {owner} has this name here; delete or rename one of the two");
                return Ok(Decision::HoldBack(HeldBackReason::Conflict, what));
            }
            if is_copy && is_same {
                let (had, has) = (owner_version(stored), incoming.version.as_str());
                if had == has || (!anew && number(had) >= number(has)) {
                    return Ok(Decision::Nothing);
                }
            }
        }
        if let Some((reason, what)) = check(registry, incoming) {
            return Ok(Decision::HoldBack(reason, what));
        }
        let place = match self.place(tenancy_of(&id)).await {
            Ok(place) if place.marked && stored.is_none() => {
                let what = "its place is marked for deletion here".to_owned();
                return Ok(Decision::HoldBack(HeldBackReason::Place, what));
            }
            Ok(place) => place,
            Err(PlaceError::Missing(what)) => return Ok(Decision::HoldBack(HeldBackReason::Place, what)),
            Err(PlaceError::Failed(e)) => return Err(e),
        };
        let mut copy = (**incoming).clone();
        copy.version.clear();
        let mut mutations = Vec::new();
        match &stored {
            Some(stored) if uid(stored) == uid(incoming) => copy.version.clone_from(&stored.version),
            Some(stored) => mutations = removal::mutations(stored),
            None => {}
        }
        let change = Change {
            id: copy.id.clone().unwrap_or_default(),
            before: stored.as_ref().map_or_else(String::new, |stored| stored.generation.clone()),
            after: copy.generation.clone(),
        };
        let meta = copy.meta.get_or_insert_default();
        meta.syncing = Some(SyncingMeta {
            copied_from: peer.to_owned(),
            owner_version: incoming.version.clone(),
            ..meta.syncing.take().unwrap_or_default()
        });
        shards::set(&self.options.placement.rings, &mut copy);
        mutations.push(Mutation::Put(Box::new(copy)));
        Ok(Decision::Write(mutations, place.expect, change))
    }

    /// The ids of a type's copies from a peer whose uids are not among these.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn copies_other_than(
        &self,
        peer: &str,
        of: &pb::Type,
        uids: &HashSet<u128>,
    ) -> Result<Vec<pb::Id>, Error> {
        let everywhere = || mortise_resource::tenancy::WILDCARD.to_owned();
        let tenancy = pb::Tenancy { partition: everywhere(), namespace: everywhere() };
        let query = Query { type_key: TypeKey::from(of), tenancy, name_prefix: String::new() };
        let failed = |e: StoreError| store_fault("failed to read copies", &e);
        let mut cursor = self.backend.scan(&query).await.map_err(failed)?;
        let mut others = Vec::new();
        while let Some(page) = cursor.next().await.map_err(failed)? {
            for found in page {
                if uids.contains(&uid_number(found.uid())) {
                    continue;
                }
                let meta = found.decode_meta()?;
                if syncing_of(meta.as_ref()).is_some_and(|syncing| syncing.copied_from == peer) {
                    others.extend(found.decode_id()?);
                }
            }
        }
        Ok(others)
    }

    /// Whether a stored resource belongs to another region, so that its owner's deletion is that region's to follow.
    pub(crate) fn is_foreign(&self, stored: &EncodedResource) -> bool {
        let Some(here) = self.region() else { return false };
        let meta = stored.decode_meta().ok().flatten();
        syncing_of(meta.as_ref()).is_some_and(|s| !s.owning_region.is_empty() && s.owning_region != here)
    }
}

impl Copied {
    fn plus(self, other: Self) -> Self {
        Self {
            written: self.written + other.written,
            removed: self.removed + other.removed,
            held_back: self.held_back + other.held_back,
            conflicts: self.conflicts + other.conflicts,
        }
    }
}

fn removal_of(stored: &pb::Resource, deleted: bool) -> Vec<Mutation> {
    match deleted {
        true => removal::mutations(stored),
        false => vec![Mutation::Delete { id: stored.id.clone().unwrap_or_default(), version: stored.version.clone() }],
    }
}

fn uid(resource: &pb::Resource) -> &str {
    resource.id.as_ref().map(|id| id.uid.as_str()).unwrap_or_default()
}

fn copied_from(resource: &pb::Resource) -> &str {
    syncing_of(resource.meta.as_deref()).map(|syncing| syncing.copied_from.as_str()).unwrap_or_default()
}

fn owner_version(resource: &pb::Resource) -> &str {
    syncing_of(resource.meta.as_deref()).map(|syncing| syncing.owner_version.as_str()).unwrap_or_default()
}

/// A version as the store counts them.
fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

/// Whether an error is that of one resource, and says nothing of the others.
fn is_of_one(error: &StoreError) -> bool {
    matches!(error, StoreError::TooLarge { .. } | StoreError::QuotaExceeded(_) | StoreError::IncompleteId(_))
}

fn failed(error: &StoreError) -> Error {
    match error {
        StoreError::CasFailure { .. } | StoreError::WrongUid | StoreError::Unexpected { .. } => {
            Error::new(Code::Aborted, "what is copied keeps changing here; try again")
        }
        other => store_fault("failed to write copies", other),
    }
}
