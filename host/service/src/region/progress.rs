//! The progress of the replicas of one type from one peer: type `mortise.v1.RegionProgress`, stored in the same commit as the
//! copies that it covers. So neither is there without the other, whenever the server ends.
//!
//! # Contract
//! The token in memory may be ahead of the stored one, by changes that came to nothing. What is held back is stored
//! whenever it changes.
//!
//! # Limits
//! What is held back is named as long as [`MAX_DEFERRED`] names and 256 KiB are not exceeded, and the progress fits
//! `store.max_resource_bytes`; of the rest it is known that there is more. No quota holds for a progress.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use mortise_resource::{
    Error,
    data::{HeldBack, HeldBackReason, RegionProgress},
    pb, types,
};
use mortise_store::{Consistency, Mutation, StoreError};
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::{regions::Regions, replicated_type::ReplicatedType};
use crate::{call::store_fault::store_fault, core::ids};

/// Resources that a progress names as held back.
pub const MAX_DEFERRED: usize = 1_000;
/// Their bytes.
const MAX_BYTES: usize = 256 << 10;
/// Bytes of a progress that names nothing: the names of peer and type, the token, and what encloses them.
const REST: usize = 4 << 10;
/// Bytes that enclose a name in the list.
const ENTRY: usize = 8;
/// How long a token that covers no change is kept in memory only.
const STORED: Duration = Duration::from_secs(600);
/// Bytes of what is said of one.
const MAX_DETAIL: usize = 512;
const TYPE_URL: &str = "type.googleapis.com/mortise.v1.RegionProgress";

/// The name of a resource within its type.
type Name = (String, String, String);

/// How far the copies of a type from a peer are.
#[derive(Debug, Clone)]
pub struct ReplicationProgress {
    pub(crate) key: ReplicatedType,
    pub(crate) of: pb::Type,
    /// How often the copies had begun anew when it was read.
    pub(super) restarts: u64,
    /// Where the watch goes on; empty: with a snapshot.
    pub resume_token: String,
    pub(super) deferred: DeferredList,
    /// Whether what is held back is not what is stored.
    pub(super) is_dirty: bool,
    /// When it was stored last; `None`: the stored token is not one of this watch.
    stored: Option<Instant>,
}

/// Resources that are held back, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct DeferredList {
    named: BTreeMap<Name, HeldBack>,
    bytes: usize,
    more: bool,
}

impl ReplicationProgress {
    /// The region that is copied from.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.key.peer
    }

    /// The ids of what is held back, as far as they are named, without uids.
    pub fn deferred_ids(&self) -> impl Iterator<Item = &pb::Id> {
        self.deferred.named.values().filter_map(|held| held.id.as_ref())
    }

    /// What is held back, as far as it is named.
    #[must_use]
    pub fn deferred(&self) -> Vec<HeldBack> {
        self.deferred.named.values().cloned().collect()
    }

    /// Number of deferred resources that are named.
    #[must_use]
    pub fn deferred_len(&self) -> usize {
        self.deferred.named.len()
    }

    /// Whether more is held back than is named.
    #[must_use]
    pub fn has_more_deferred(&self) -> bool {
        self.deferred.more
    }

    /// Takes a resource off what is held back.
    pub fn forget(&mut self, id: &pb::Id) {
        self.is_dirty |= self.deferred.remove(id);
    }

    /// Begins anew: a snapshot follows, and says what is to be held back.
    pub fn begin_anew(&mut self) {
        self.resume_token.clear();
        self.stored = None;
        self.is_dirty |= self.deferred != DeferredList::default();
        self.deferred = DeferredList::default();
    }

    /// Whether it is to be stored, though no copy has changed.
    pub(super) fn is_due(&self) -> bool {
        self.is_dirty || self.stored.is_none_or(|stored| stored.elapsed() > STORED)
    }

    /// Notes that it is stored as it is. The first token of a watch is due all the same.
    pub(crate) fn stored(&mut self) {
        self.is_dirty = false;
        self.stored = (!self.resume_token.is_empty()).then(Instant::now);
    }

    fn from_stored(key: ReplicatedType, of: &pb::Type, restarts: u64, stored: Option<RegionProgress>) -> Self {
        let RegionProgress { resume_token, held_back, held_back_more, .. } = stored.unwrap_or_default();
        let mut list = DeferredList { more: held_back_more, ..DeferredList::default() };
        for held in held_back {
            list.insert(held, usize::MAX);
        }
        let stored = (!resume_token.is_empty()).then(Instant::now);
        Self { key, of: of.clone(), restarts, resume_token, deferred: list, is_dirty: false, stored }
    }

    fn to_pb(&self) -> RegionProgress {
        RegionProgress {
            peer: self.key.peer.clone(),
            r#type: Some(self.of.clone()),
            resume_token: self.resume_token.clone(),
            held_back: self.deferred(),
            held_back_more: self.deferred.more,
        }
    }
}

impl DeferredList {
    /// Notes that a resource is not applied, and why, if its name fits into this many bytes with the others.
    pub(crate) fn add(&mut self, id: pb::Id, reason: HeldBackReason, mut detail: String, room: usize) {
        detail.truncate(detail.floor_char_boundary(MAX_DETAIL));
        let id = pb::Id { uid: String::new(), ..id };
        self.insert(HeldBack { id: Some(id), reason: reason.into(), detail }, room);
    }

    fn insert(&mut self, held: HeldBack, room: usize) {
        let Some(id) = &held.id else { return };
        self.remove(id);
        let bytes = held.encoded_len() + ENTRY;
        if self.named.len() >= MAX_DEFERRED || self.bytes + bytes > room {
            self.more = true;
            return;
        }
        self.bytes += bytes;
        self.named.insert(name_of(id), held);
    }

    /// Takes a resource off. Returns whether it was named.
    pub(crate) fn remove(&mut self, id: &pb::Id) -> bool {
        if self.named.is_empty() {
            return false;
        }
        let Some(held) = self.named.remove(&name_of(id)) else { return false };
        self.bytes = self.bytes.saturating_sub(held.encoded_len() + ENTRY);
        true
    }
}

impl Regions {
    /// The progress of a type's copies from a peer; an empty one, if nothing was copied yet.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn progress(&self, peer: &str, of: &pb::Type) -> Result<ReplicationProgress, Error> {
        let key = ReplicatedType::new(peer, of);
        let _reading = self.restarts.read().await;
        let restarts = self.restarts.number(&key);
        let stored = self.stored_progress(&key).await.map_err(|e| store_fault("failed read", &e))?;
        Ok(ReplicationProgress::from_stored(key, of, restarts, stored.as_ref().and_then(content)))
    }

    /// What stores a progress, over what is stored now.
    pub(super) async fn progress_mutation(&self, progress: &ReplicationProgress) -> Result<Mutation, StoreError> {
        let mut resource = match self.stored_progress(&progress.key).await? {
            Some(stored) => stored,
            None => pb::Resource { id: Some(pb::Id { uid: ids::ulid(), ..id(&progress.key) }), ..Default::default() },
        };
        resource.generation = ids::ulid();
        resource.data = Some(prost_types::Any { type_url: TYPE_URL.into(), value: progress.to_pb().encode_to_vec() });
        Ok(Mutation::Put(Box::new(resource)))
    }

    /// Forgets a progress.
    pub(super) async fn drop_progress(&self, key: &ReplicatedType) -> Result<(), StoreError> {
        let Some(stored) = self.stored_progress(key).await? else { return Ok(()) };
        let delete = Mutation::Delete { id: stored.id.unwrap_or_default(), version: stored.version };
        self.core.backend.commit(mortise_store::Batch::single(delete)).await.map(drop)
    }

    async fn stored_progress(&self, key: &ReplicatedType) -> Result<Option<pb::Resource>, StoreError> {
        match self.core.backend.read(Consistency::Consistent, &id(key)).await {
            Ok(stored) => Ok(Some(stored)),
            Err(StoreError::NotFound) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Bytes of what a progress may name as held back.
    pub(super) fn deferred_room(&self) -> usize {
        room_in(self.core.options.max_resource_bytes)
    }
}

fn room_in(max_resource_bytes: usize) -> usize {
    MAX_BYTES.min(max_resource_bytes.saturating_sub(REST))
}

fn content(resource: &pb::Resource) -> Option<RegionProgress> {
    RegionProgress::decode(resource.data.as_ref()?.value.as_slice()).ok()
}

/// Its id: the digest of the peer's name and the type, whose versions share one.
fn id(key: &ReplicatedType) -> pb::Id {
    let parts = [&key.peer, &key.group, &key.kind];
    let digest = parts.into_iter().fold(Sha256::new(), |digest, part| digest.chain_update(part).chain_update([0]));
    pb::Id {
        uid: String::new(),
        // The precision is that of hexadecimal digits: 20 bytes.
        name: format!("r{:.40x}", digest.finalize()),
        r#type: Some(types::region_progress().to_pb()),
        tenancy: Some(pb::Tenancy::default()),
    }
}

fn name_of(id: &pb::Id) -> Name {
    let tenancy = id.tenancy.clone().unwrap_or_default();
    (tenancy.partition, tenancy.namespace, id.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> ReplicationProgress {
        let of = pb::Type { group: "demo".into(), group_version: "v1".into(), kind: "Artist".into() };
        ReplicationProgress::from_stored(ReplicatedType::new("eu", &of), &of, 0, None)
    }

    fn named(name: &str) -> pb::Id {
        let tenancy = pb::Tenancy { partition: "p".repeat(63), namespace: "n".repeat(63) };
        pb::Id { name: name.into(), uid: "u".into(), tenancy: Some(tenancy), ..fresh_id() }
    }

    fn fresh_id() -> pb::Id {
        let part = "x".repeat(128);
        let of = pb::Type { group: part.clone(), group_version: part.clone(), kind: part };
        pb::Id { r#type: Some(of), ..pb::Id::default() }
    }

    #[test]
    fn a_progress_fits_the_smallest_limit_of_resources_and_knows_that_there_is_more() {
        for limit in [1_000, 5_000, 40_000, 1 << 20, 1 << 30] {
            let mut progress = fresh();
            progress.resume_token = "t".repeat(512);
            for number in 0..2_000 {
                let (id, detail) = (named(&format!("{number:063}")), "é".repeat(400));
                progress.deferred.add(id, HeldBackReason::Conflict, detail, room_in(limit));
            }
            assert!(progress.has_more_deferred());
            let bytes = progress.to_pb().encoded_len();
            assert!(bytes + 512 <= limit.max(2_000), "{bytes} of {limit}");
            assert!(bytes <= MAX_BYTES + REST && progress.deferred_len() <= MAX_DEFERRED);
        }
    }

    #[test]
    fn what_is_held_back_is_named_once_and_comes_back_as_it_was_stored() {
        let mut progress = fresh();
        for detail in ["one", "another"] {
            progress.deferred.add(named("a"), HeldBackReason::Place, detail.into(), MAX_BYTES);
        }
        assert_eq!(progress.deferred_len(), 1);
        assert_eq!(progress.deferred().iter().map(|held| held.detail.as_str()).collect::<Vec<_>>(), ["another"]);
        let again = ReplicationProgress::from_stored(progress.key.clone(), &progress.of, 0, Some(progress.to_pb()));
        assert_eq!(again.deferred, progress.deferred);
        progress.forget(&named("a"));
        assert!(progress.is_dirty && progress.deferred == DeferredList::default());
    }
}
