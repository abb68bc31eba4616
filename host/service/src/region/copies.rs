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
//! [`MAX_HELD_BACK`] names in a progress. Quotas hold as for writes.

use std::{
    collections::{BTreeMap, HashSet},
    num::NonZeroU32,
    sync::Arc,
};

use mortise_resource::{
    Code, EncodedResource, Error,
    data::{HeldBack, HeldBackReason, RegionProgress},
    goten::SyncingMeta,
    pb, types,
};
use mortise_store::{Batch, Consistency, Expectation, ExpectedId, Mutation, Query, StoreError, TypeKey};

use super::enforce::{owning_region, syncing_of};
use crate::{
    admit, read::tenancy_of, registry::Registry, removal, service::ResourceService, shards, store_fault::store_fault,
    tenancy::PlaceError,
};

/// Resources that a progress names as held back.
pub const MAX_HELD_BACK: usize = 1_000;
/// Bytes of what is said of one.
const MAX_DETAIL: usize = 512;
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
    Write(Vec<Mutation>, Vec<Expectation>),
    Remove(Vec<Mutation>),
    HoldBack(HeldBackReason, String),
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
    /// Applies changes that a peer told of one type, each resource once, and stores the progress, in one commit. The
    /// names that are held back are noted in the progress. `anew` says that the peer's versions begin anew: a copy is
    /// then replaced by any other version.
    ///
    /// # Errors
    /// `Aborted`: other changes came in between, in each of ten attempts. Faults of the store. What was applied then is
    /// not known; the same changes may come again.
    pub async fn apply_copies(
        &self,
        progress: &mut RegionProgress,
        changes: &[CopyChange],
        anew: bool,
    ) -> Result<Copied, Error> {
        match self.try_copies(progress, changes, anew, true).await {
            // One of them is not to be had, so each is tried by itself; the progress comes last.
            Err(StoreError::TooLarge { .. } | StoreError::QuotaExceeded(_) | StoreError::IncompleteId(_)) => {
                let mut sum = Copied::default();
                for change in changes {
                    let mut alone = progress.clone();
                    let one = std::slice::from_ref(change);
                    let copied = match self.try_copies(&mut alone, one, anew, false).await {
                        Ok(copied) => copied,
                        Err(
                            e @ (StoreError::TooLarge { .. }
                            | StoreError::QuotaExceeded(_)
                            | StoreError::IncompleteId(_)),
                        ) => {
                            hold_back(&mut alone, change, HeldBackReason::Store, e.to_string());
                            Copied { held_back: 1, ..Copied::default() }
                        }
                        Err(e) => return Err(failed(&e)),
                    };
                    *progress = alone;
                    sum = sum.plus(copied);
                }
                self.try_copies(progress, &[], anew, true).await.map_err(|e| failed(&e))?;
                Ok(sum)
            }
            other => other.map_err(|e| failed(&e)),
        }
    }

    /// Applies changes in one commit, with the progress or without.
    async fn try_copies(
        &self,
        progress: &mut RegionProgress,
        changes: &[CopyChange],
        anew: bool,
        stores_progress: bool,
    ) -> Result<Copied, StoreError> {
        let registry = self.types();
        let mut attempts = 0;
        loop {
            let mut next = progress.clone();
            let (mut copied, mut mutations) = (Copied::default(), Vec::new());
            let mut expect: BTreeMap<(String, String, String, String), Expectation> = BTreeMap::new();
            for change in changes {
                let id = change.id();
                next.held_back.retain(|held| !is_same_name(held.id.as_ref(), &id));
                match self.decide_copy(&registry, &next.peer, change, anew).await? {
                    Decision::Nothing => {}
                    Decision::Write(some, expected) => {
                        copied.written += 1;
                        mutations.extend(some);
                        for one in expected {
                            let ExpectedId { type_key, partition, namespace, name, .. } = &one.id;
                            let key = (type_key.kind.clone(), partition.clone(), namespace.clone(), name.clone());
                            expect.insert(key, one);
                        }
                    }
                    Decision::Remove(some) => {
                        copied.removed += 1;
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
                    return Ok(copied);
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
                        Decision::Remove(removal_of(&stored, *deleted))
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
        let meta = copy.meta.get_or_insert_default();
        meta.syncing = Some(SyncingMeta {
            copied_from: peer.to_owned(),
            owner_version: incoming.version.clone(),
            ..meta.syncing.take().unwrap_or_default()
        });
        shards::set(&self.options.placement.rings, &mut copy);
        mutations.push(Mutation::Put(Box::new(copy)));
        Ok(Decision::Write(mutations, place.expect))
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

    /// The types whose resources may be copied: of those that share a kind, all versions, oldest first.
    #[must_use]
    pub fn copied_types(&self) -> BTreeMap<(String, String), Vec<Arc<crate::registry::ResourceType>>> {
        let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for kind in self.types().types() {
            let is_host = matches!(kind.owner, crate::registry::Owner::Host);
            if is_host && kind.gvk != types::namespace() {
                continue;
            }
            all.entry((kind.gvk.group.clone(), kind.gvk.kind.clone())).or_default().push(kind.clone());
        }
        for versions in all.values_mut() {
            versions.sort_by(|a, b| a.gvk.cmp(&b.gvk));
        }
        all
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

/// A uid as a number; what is no ULID has its hash.
#[must_use]
pub fn uid_number(uid: &str) -> u128 {
    ulid::Ulid::from_string(uid).map_or_else(
        |_| {
            uid.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
                (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
            })
        },
        |ulid| ulid.0,
    )
}

/// What keeps a resource from being stored here.
fn check(registry: &Registry, incoming: &pb::Resource) -> Option<(HeldBackReason, String)> {
    let invalid = |what: String| Some((HeldBackReason::Invalid, what));
    let mut id = incoming.id.clone().unwrap_or_default();
    if let Err(e) = types::check_id("id", &mut id).and_then(|()| types::check_reference("id", &id)) {
        return invalid(e.message);
    }
    if id.uid.is_empty() || incoming.generation.is_empty() || incoming.version.is_empty() {
        return invalid("it has no uid, generation or version".into());
    }
    let kind = match registry.resolve(&id.r#type.clone().unwrap_or_default()) {
        Ok(kind) => kind,
        Err(e) => return invalid(e.message),
    };
    if let Err(e) = kind.scope.check("resource", &kind.gvk.to_string(), tenancy_of(&id)) {
        return invalid(e.message);
    }
    let version = NonZeroU32::new(incoming.schema_version).unwrap_or(NonZeroU32::MIN);
    if version > kind.schema_version {
        let what =
            format!("schema version {version}, and the type has {} here; update its plugin", kind.schema_version);
        return Some((HeldBackReason::Schema, what));
    }
    match &incoming.data {
        // What is older is upgraded when it is read.
        Some(data) if version == kind.schema_version => match admit::check_data(kind, data) {
            Ok(()) => None,
            Err(e) => invalid(e.message),
        },
        _ => None,
    }
}

fn removal_of(stored: &pb::Resource, deleted: bool) -> Vec<Mutation> {
    match deleted {
        true => removal::mutations(stored),
        false => vec![Mutation::Delete { id: stored.id.clone().unwrap_or_default(), version: stored.version.clone() }],
    }
}

fn hold_back(progress: &mut RegionProgress, change: &CopyChange, reason: HeldBackReason, mut detail: String) {
    let id = pb::Id { uid: String::new(), ..change.id() };
    progress.held_back.retain(|held| !is_same_name(held.id.as_ref(), &id));
    if progress.held_back.len() >= MAX_HELD_BACK {
        progress.held_back_more = true;
        return;
    }
    detail.truncate(detail.floor_char_boundary(MAX_DETAIL));
    progress.held_back.push(HeldBack { id: Some(id), reason: reason.into(), detail });
}

fn is_same_name(held: Option<&pb::Id>, id: &pb::Id) -> bool {
    held.is_some_and(|held| held.name == id.name && held.tenancy == id.tenancy)
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

fn failed(error: &StoreError) -> Error {
    match error {
        StoreError::CasFailure { .. } | StoreError::WrongUid | StoreError::Unexpected { .. } => {
            Error::new(Code::Aborted, "what is copied keeps changing here; try again")
        }
        other => store_fault("failed to write copies", other),
    }
}
