//! The progress of the replicas of one type from one peer: type `mortise.v1.RegionProgress`. It is stored in the same
//! commit as its replicas, so neither exists without the other after any end of the server.
//!
//! # Contract
//! The token in memory may be ahead of the stored one, by changes without an effect here. The deferred resources are
//! stored at each change.
//!
//! # Limits
//! At most [`MAX_DEFERRED`] names and 256 KiB of deferred resources are listed, and the progress fits
//! `store.max_resource_bytes`; a flag stands for the rest. No quota holds for a progress.

use std::{collections::BTreeMap, time::Instant};

use mortise_resource::{
    Error,
    data::{HeldBack, HeldBackReason, RegionProgress},
    pb, types,
};
use mortise_store::{Consistency, Mutation, StoreError};
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::{replicas::Replicas, replicated_type::ReplicatedType};
use crate::{
    call::store_fault::store_fault,
    core::{durations::TOKEN_STORE_INTERVAL, ids},
};

/// Deferred resources that a progress names.
pub const MAX_DEFERRED: usize = 1_000;
/// Bytes of these names.
const MAX_DEFERRED_BYTES: usize = 256 << 10;
/// Bytes of a progress without names: the names of peer and type, the token, and their encoding.
const HEADER_BYTES: usize = 4 << 10;
/// Bytes of the encoding around a name.
const ENTRY_OVERHEAD_BYTES: usize = 8;
/// Changes that a peer may have made since it was asked for its newest version.
const MAX_VERSION_LEAD: u64 = 1_024;
/// Highest version from a peer that does not tell its newest one: a million commits a second for 280 years.
const MAX_UNKNOWN_VERSION: u64 = 1 << 53;
/// Bytes of the detail of a deferred resource.
const MAX_DETAIL_BYTES: usize = 512;
const TYPE_URL: &str = "type.googleapis.com/mortise.v1.RegionProgress";

/// The name of a resource within its type.
type Name = (String, String, String);

/// The store of the owner: where a token and replicas are from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnerStore {
    /// Its id; empty for a release without ids.
    pub id: String,
    /// Version of its newest change when it was asked last; `None` for a release that does not tell.
    pub newest_version: Option<u64>,
}

impl OwnerStore {
    /// Whether a version is so far beyond the newest one that no change can have it.
    #[must_use]
    pub fn is_beyond(&self, version: u64) -> bool {
        version > self.newest_version.map_or(MAX_UNKNOWN_VERSION, |newest| newest.saturating_add(MAX_VERSION_LEAD))
    }
}

/// The progress of the replicas of a type from a peer.
#[derive(Debug, Clone)]
pub struct ReplicationProgress {
    pub(crate) key: ReplicatedType,
    pub(crate) followed_type: pb::Type,
    /// Restarts of the replication at the time of reading.
    pub(super) restarts: u64,
    /// Position of the watch; empty for a snapshot.
    pub resume_token: String,
    /// The store of the token, and of the replicas that are written with it.
    pub store: OwnerStore,
    pub(super) deferred: DeferredList,
    /// Whether the deferred resources differ from the stored ones.
    pub(super) is_dirty: bool,
    /// Time of the last store; `None` if the stored token is not of this watch.
    stored: Option<Instant>,
}

/// Deferred resources, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct DeferredList {
    named: BTreeMap<Name, HeldBack>,
    bytes: usize,
    more: bool,
}

impl ReplicationProgress {
    /// Region of the owner of the replicas.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.key.peer
    }

    /// Returns the ids of the named deferred resources, without uids.
    pub fn deferred_ids(&self) -> impl Iterator<Item = &pb::Id> {
        self.deferred.named.values().filter_map(|held| held.id.as_ref())
    }

    /// Returns the named deferred resources.
    #[must_use]
    pub fn deferred(&self) -> Vec<HeldBack> {
        self.deferred.named.values().cloned().collect()
    }

    /// Returns the number of named deferred resources.
    #[must_use]
    pub fn deferred_len(&self) -> usize {
        self.deferred.named.len()
    }

    /// Whether further resources are deferred that have no name here.
    #[must_use]
    pub fn has_more_deferred(&self) -> bool {
        self.deferred.more
    }

    /// Removes a resource from the deferred ones.
    pub fn forget(&mut self, id: &pb::Id) {
        self.is_dirty |= self.deferred.remove(id);
    }

    /// Binds the progress to a store. A token of another store is dropped.
    pub fn bind(&mut self, store: OwnerStore) {
        if !self.store.id.is_empty() && self.store.id != store.id {
            self.restart();
        }
        self.store = store;
    }

    /// Starts again: a snapshot follows, and finds the deferred resources.
    pub fn restart(&mut self) {
        self.resume_token.clear();
        self.stored = None;
        self.is_dirty |= self.deferred != DeferredList::default();
        self.deferred = DeferredList::default();
    }

    /// Whether the progress has to be stored even without a changed replica.
    pub(super) fn is_due(&self) -> bool {
        self.is_dirty || self.stored.is_none_or(|stored| stored.elapsed() > TOKEN_STORE_INTERVAL)
    }

    /// Notes that the progress is stored. The first token of a watch stays due.
    pub(crate) fn stored(&mut self) {
        self.is_dirty = false;
        self.stored = (!self.resume_token.is_empty()).then(Instant::now);
    }

    fn from_stored(
        key: ReplicatedType,
        followed_type: &pb::Type,
        restarts: u64,
        stored: Option<RegionProgress>,
    ) -> Self {
        let RegionProgress { resume_token, held_back, held_back_more, store_id, .. } = stored.unwrap_or_default();
        let mut list = DeferredList { more: held_back_more, ..DeferredList::default() };
        for held in held_back {
            list.insert(held, usize::MAX);
        }
        let stored = (!resume_token.is_empty()).then(Instant::now);
        Self {
            key,
            followed_type: followed_type.clone(),
            restarts,
            resume_token,
            store: OwnerStore { id: store_id, newest_version: None },
            deferred: list,
            is_dirty: false,
            stored,
        }
    }

    fn to_pb(&self) -> RegionProgress {
        RegionProgress {
            peer: self.key.peer.clone(),
            r#type: Some(self.followed_type.clone()),
            resume_token: self.resume_token.clone(),
            held_back: self.deferred(),
            held_back_more: self.deferred.more,
            store_id: self.store.id.clone(),
        }
    }
}

impl DeferredList {
    /// Defers a resource, with the reason, if its name fits into `room` bytes with the others.
    pub(crate) fn add(&mut self, id: pb::Id, reason: HeldBackReason, mut detail: String, room: usize) {
        detail.truncate(detail.floor_char_boundary(MAX_DETAIL_BYTES));
        let id = pb::Id { uid: String::new(), ..id };
        self.insert(HeldBack { id: Some(id), reason: reason.into(), detail }, room);
    }

    fn insert(&mut self, held: HeldBack, room: usize) {
        let Some(id) = &held.id else { return };
        self.remove(id);
        let bytes = held.encoded_len() + ENTRY_OVERHEAD_BYTES;
        if self.named.len() >= MAX_DEFERRED || self.bytes + bytes > room {
            self.more = true;
            return;
        }
        self.bytes += bytes;
        self.named.insert(name_of(id), held);
    }

    /// Removes a resource. Returns whether it was named.
    pub(crate) fn remove(&mut self, id: &pb::Id) -> bool {
        if self.named.is_empty() {
            return false;
        }
        let Some(held) = self.named.remove(&name_of(id)) else { return false };
        self.bytes = self.bytes.saturating_sub(held.encoded_len() + ENTRY_OVERHEAD_BYTES);
        true
    }
}

impl Replicas {
    /// Reads the progress of a type's replicas from a peer; an empty one if nothing was replicated yet.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn progress(&self, peer: &str, followed_type: &pb::Type) -> Result<ReplicationProgress, Error> {
        let key = ReplicatedType::new(peer, followed_type);
        let _reading = self.restarts.read().await;
        let restarts = self.restarts.number(&key);
        let stored = self.stored_progress(&key).await.map_err(|e| store_fault("failed read", &e))?;
        Ok(ReplicationProgress::from_stored(key, followed_type, restarts, stored.as_ref().and_then(content)))
    }

    /// Returns the mutation that replaces the stored progress.
    pub(super) async fn progress_mutation(&self, progress: &ReplicationProgress) -> Result<Mutation, StoreError> {
        let mut resource = match self.stored_progress(&progress.key).await? {
            Some(stored) => stored,
            None => pb::Resource { id: Some(pb::Id { uid: ids::ulid(), ..id(&progress.key) }), ..Default::default() },
        };
        resource.generation = ids::ulid();
        resource.data = Some(prost_types::Any { type_url: TYPE_URL.into(), value: progress.to_pb().encode_to_vec() });
        Ok(Mutation::Put(Box::new(resource)))
    }

    /// Returns the stored progress of every type from a peer: the key, and the id of the store.
    pub(super) async fn progress_of(&self, peer: &str) -> Result<Vec<(ReplicatedType, String)>, StoreError> {
        let query = ids::query_everywhere(&types::region_progress().to_pb());
        let stored = self.core.backend.list(Consistency::Consistent, &query).await?;
        let of_peer = stored.iter().filter_map(content).filter(|progress| progress.peer == peer);
        Ok(of_peer
            .map(|progress| (ReplicatedType::new(peer, &progress.r#type.unwrap_or_default()), progress.store_id))
            .collect())
    }

    /// Deletes the stored progress.
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

    /// Returns the bytes for the names of deferred resources.
    pub(super) fn deferred_room(&self) -> usize {
        room_in(self.core.options.max_resource_bytes)
    }
}

fn room_in(max_resource_bytes: usize) -> usize {
    MAX_DEFERRED_BYTES.min(max_resource_bytes.saturating_sub(HEADER_BYTES))
}

fn content(resource: &pb::Resource) -> Option<RegionProgress> {
    RegionProgress::decode(resource.data.as_ref()?.value.as_slice()).ok()
}

/// Returns its id: the digest of the peer's name and the type; all versions of a type share an id.
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
        let followed_type = pb::Type { group: "demo".into(), group_version: "v1".into(), kind: "Artist".into() };
        ReplicationProgress::from_stored(ReplicatedType::new("eu", &followed_type), &followed_type, 0, None)
    }

    fn named(name: &str) -> pb::Id {
        let tenancy = pb::Tenancy { partition: "p".repeat(63), namespace: "n".repeat(63) };
        pb::Id { name: name.into(), uid: "u".into(), tenancy: Some(tenancy), ..fresh_id() }
    }

    fn fresh_id() -> pb::Id {
        let part = "x".repeat(128);
        let followed_type = pb::Type { group: part.clone(), group_version: part.clone(), kind: part };
        pb::Id { r#type: Some(followed_type), ..pb::Id::default() }
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
            assert!(bytes <= MAX_DEFERRED_BYTES + HEADER_BYTES && progress.deferred_len() <= MAX_DEFERRED);
        }
    }

    #[test]
    fn a_deferred_resource_is_named_once_and_read_as_stored() {
        let mut progress = fresh();
        for detail in ["one", "another"] {
            progress.deferred.add(named("a"), HeldBackReason::Place, detail.into(), MAX_DEFERRED_BYTES);
        }
        assert_eq!(progress.deferred_len(), 1);
        assert_eq!(progress.deferred().iter().map(|held| held.detail.as_str()).collect::<Vec<_>>(), ["another"]);
        let again =
            ReplicationProgress::from_stored(progress.key.clone(), &progress.followed_type, 0, Some(progress.to_pb()));
        assert_eq!(again.deferred, progress.deferred);
        progress.forget(&named("a"));
        assert!(progress.is_dirty && progress.deferred == DeferredList::default());
    }
}
