//! The storage contract.
//!
//! A backend keeps whole resources and changes them by compare-and-swap only; blanket writes, defaults, tenancy and
//! hooks are its caller's business. Everything here may be answered by another process one day: nothing hands out
//! references into a store, and nothing assumes that the caller's view is the newest.
//!
//! # Guarantees
//! - **Durable before acknowledged.** When [`Backend::commit`] returns, the batch survives loss of power.
//! - **All or nothing.** A batch is applied whole, over every index, or not at all.
//! - **Published only.** Reads, lists and watches see committed, durable state and nothing else.
//! - **Monotonic.** On one backend a read never shows an older state than an earlier read or a delivered event did.
//! - **Ordered.** A watch delivers events in commit order, each once, after a snapshot that is no older than the call.
//! - **Strong reads** ([`Consistency::Consistent`]) show every write acknowledged before the call.
//! - **Snapshots** ([`Backend::snapshot`]) are the whole content as of one commit, events included, however long they
//!   are read and whatever is written meanwhile.
//!
//! # Cost
//! Read is a point lookup; List, ListByOwner and wildcards are range scans over what they return, never over the store.
//! A list holds its result in memory, a scan and the snapshot of a watch a page of it. A snapshot holds a page in
//! memory, and makes no writer wait.

use std::collections::BTreeMap;

use async_trait::async_trait;
use mortise_resource::{EncodedResource, data::OnDelete, meta, pb, resource_meta};
use prost::{Message as _, encoding};
use prost_types::Timestamp;
use tokio::sync::watch;

use crate::{
    changes::{ChangeWatch, OpenedChanges, Position},
    error::StoreError,
    ids::{ExpectedId, Place, TypeKey},
    quota::Usage,
    referrers::ExpectedReferrers,
    set_hash::SetHash,
    terms::Term,
};

/// How fresh a read must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Consistency {
    /// Monotonic on this backend.
    #[default]
    Eventual,
    /// Linearizable.
    Consistent,
}

/// Which resources a list or a watch is about, of any GroupVersion.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Query {
    /// The type.
    pub type_key: TypeKey,
    /// Where; `*` in a unit means all of them, empty means resources that have the unit empty.
    pub tenancy: pb::Tenancy,
    /// What names begin with; empty for all.
    pub name_prefix: String,
}

/// Which resources of a query a scan gives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanPart {
    /// Those with this label and its value; `None` for all.
    pub label: Option<(String, String)>,
    /// Those behind this place in the order of the scan; `None` from the beginning.
    pub after: Option<Place>,
}

/// One change within a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Mutation {
    /// Creates (empty `version`) or replaces (the stored `version`) a whole resource.
    ///
    /// The id must be complete: type, tenancy, name, uid. The store sets the version, in `meta`, too, if there is one. Fails with [`StoreError::WrongUid`] when another incarnation
    /// is stored, which is judged first, and with [`StoreError::CasFailure`] when the version is not the stored one:
    /// a version for an absent resource and no version for a present one included. The GroupVersion is never judged.
    Put(Box<pb::Resource>),
    /// Deletes a resource. Absent, or stored under another uid (an empty one counts as another): no effect, no error.
    /// A version that is not the stored one (an empty one included): [`StoreError::CasFailure`].
    Delete {
        /// Which incarnation.
        id: pb::Id,
        /// The version it must have.
        version: String,
    },
    /// Stores the same resource in another form, such as data of a newer schema: replaces what is stored under exactly
    /// this uid and version. The version stays, and there is no event: nothing happened that a client could tell.
    /// Absent, or stored under another uid or version: no effect, no error.
    Rewrite(Box<pb::Resource>),
}

/// What must hold for a batch to be applied, about resources that the batch does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// A resource that must exist; with a non-empty uid, in this incarnation.
    pub id: ExpectedId,
    /// The generation that it must have, if that matters. Status writes do not change it.
    pub generation: Option<String>,
    /// Whether it must not be marked for deletion.
    pub is_unmarked: bool,
}

/// Changes that are applied together or not at all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// Checked first; the first that does not hold fails the batch with [`StoreError::Unexpected`].
    pub expect: Vec<Expectation>,
    /// Checked then: one that does not hold fails the batch with [`StoreError::ReferrersChanged`].
    pub referrers: Vec<ExpectedReferrers>,
    /// Applied in order; each sees the ones before it. Each put and delete that changes something becomes one event
    /// with a version of its own.
    pub mutations: Vec<Mutation>,
    /// Whether it belongs to a deletion: then it is taken on a full disk, too, with what else it puts. A batch that deletes
    /// something does in any case.
    pub belongs_to_deletion: bool,
    /// Whether the [quotas](crate::quota) hold for it, by what its mutations come to together. Not for what the host
    /// writes itself, nor for deletions and their marks.
    pub limited: bool,
    /// A type whose resources do not count for the quotas here.
    pub unlimited: Option<TypeKey>,
}

impl Batch {
    /// A batch of one change, no expectations, and no quotas.
    #[must_use]
    pub fn of(mutation: Mutation) -> Self {
        Self::of_all(vec![mutation])
    }

    /// A batch of several changes, no expectations, and no quotas.
    #[must_use]
    pub fn of_all(mutations: Vec<Mutation>) -> Self {
        Self { mutations, ..Self::default() }
    }

    /// The batch, with quotas.
    #[must_use]
    pub fn limited(self) -> Self {
        Self { limited: true, ..self }
    }
}

/// A change as watchers see it. Deletes carry the whole last stored resource.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// Created or replaced, or part of the snapshot.
    Upsert(EncodedResource),
    /// Deleted.
    Delete(EncodedResource),
    /// The snapshot is complete; sent exactly once, also when it was empty.
    EndOfSnapshot,
}

/// A scan in progress: what a query or an owner asks for as of the commit at which it was opened, page by page.
/// Dropping it ends it.
///
/// It holds one page, and of what it has yet to give what changed since it was opened; no page is read before it is
/// asked for.
#[async_trait]
pub trait Cursor: Send {
    /// The next resources, in the order of the scan: at least one, at most some thousand or about a MiB, and those
    /// among them that changed meanwhile. `None` after the last, then and ever after. Safe to cancel: a
    /// page that was not returned is returned by the next call.
    ///
    /// # Errors
    /// Faults of the store, [`StoreError::Unreadable`], [`StoreError::ScanOutrun`], [`StoreError::Closed`] once it is dropped. After an error the
    /// cursor is dead.
    async fn next(&mut self) -> Result<Option<Vec<EncodedResource>>, StoreError>;

    /// Whether it is known that no page follows.
    fn is_at_end(&self) -> bool {
        false
    }
}

/// An open watch. Dropping it closes it.
#[async_trait]
pub trait Watch: Send {
    /// The next event. Never ends by itself; after an error the watch is dead.
    ///
    /// # Errors
    /// [`StoreError::WatchLagged`] when the reader fell further behind than the backend remembers;
    /// [`StoreError::WatchClosed`] when the backend replaced its content; [`StoreError::Closed`] at shutdown.
    async fn next(&mut self) -> Result<WatchEvent, StoreError>;

    /// The next event, if it is there and nothing has to be waited for.
    ///
    /// # Errors
    /// As [`Watch::next`].
    fn ready(&mut self) -> Result<Option<WatchEvent>, StoreError>;
}

/// What a record of a snapshot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    /// A resource that is stored.
    Resource,
    /// An event of the history: a resource was created or replaced.
    Upsert,
    /// An event of the history: a resource was deleted; the payload is what was stored last.
    Delete,
}

/// A piece of a snapshot, in the form in which it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What it is.
    pub kind: RecordKind,
    /// The commit that wrote it: of a resource its version, of an event its place in the history.
    pub sequence: u64,
    /// An encoded `hashicorp.consul.resource.Resource`.
    pub payload: Vec<u8>,
}

/// What a snapshot holds, known before its first record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotHead {
    /// The commit that it is the state of; 0 before the first one.
    pub sequence: u64,
    /// How many resources there are of each type.
    pub resources: BTreeMap<TypeKey, u64>,
    /// The hash of the set of their keys and versions; `None` when it is not known.
    pub resources_hash: Option<SetHash>,
    /// The oldest event of the history; `sequence + 1` when there is none. The events are those from here to
    /// `sequence`.
    pub first_event: u64,
    /// Sequences among those that no commit got: a store that was not closed in good order passes some over.
    pub skipped: u64,
    /// Lengths of the events' payloads together, bytes.
    pub event_bytes: u64,
}

impl SnapshotHead {
    /// How many resources there are.
    #[must_use]
    pub fn resources(&self) -> u64 {
        self.resources.values().sum()
    }

    /// How many events there are.
    #[must_use]
    pub fn events(&self) -> u64 {
        (self.sequence + 1).saturating_sub(self.first_event).saturating_sub(self.skipped)
    }
}

/// The whole content of a store as of one commit. Dropping it ends it.
#[async_trait]
pub trait Snapshot: Send {
    /// What is in it.
    fn head(&self) -> &SnapshotHead;

    /// The next page of records, some hundred KiB; `None` when all were given. Each record comes exactly once, in no
    /// particular order.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], naming a record that is damaged; other faults of the store. The snapshot is dead then.
    async fn next(&mut self) -> Result<Option<Vec<Record>>, StoreError>;
}

/// A store in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// What a snapshot would hold.
    pub head: SnapshotHead,
    /// Bytes of its files.
    pub bytes_on_disk: u64,
    /// Snapshots that are being read.
    pub snapshots: usize,
    /// What is wrong.
    pub health: Health,
}

/// What is wrong with a store, each in a sentence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Why every write is refused until a restart: the outcome of one is not known.
    pub poisoned: Option<String>,
    /// Why writes that need room are refused until there is some.
    pub full: Option<String>,
    /// Which resources are not there, or not as they were acknowledged.
    pub damaged: Option<String>,
}

impl Health {
    /// Whether the store does what it is there for. A full disk is for its operator to see to, and a restart would not
    /// help.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.poisoned.is_none() && self.damaged.is_none()
    }
}

/// Bytes of a resource as limits count them: encoded, without its version, the server's part of its meta and the records
/// of its references, which no client can make shorter, and without the mark of a deletion, which has to be possible for what just fits.
#[must_use]
pub fn limited_size(resource: &pb::Resource) -> usize {
    let mark = resource.metadata.get(meta::DELETION_TIMESTAMP);
    if mark.is_some() && meta::finalizers(&resource.metadata).contains(meta::HELD_BY_REFERENCES) {
        // It is put there together with the mark.
        let mut without = resource.clone();
        meta::remove_finalizer(&mut without.metadata, meta::HELD_BY_REFERENCES);
        if !meta::has_finalizers(&without.metadata) {
            without.metadata.remove(meta::FINALIZERS);
        }
        return limited_size(&without);
    }
    let meta = resource.meta.as_deref().map_or(0, resource_meta::server_part_len);
    let kept_by_server = meta + encoding::message::encoded_len_repeated(1002, &resource.references);
    limited(resource.encoded_len() - kept_by_server, &resource.version, mark.map(String::as_str))
}

/// [`limited_size`] of a resource that is encoded.
#[must_use]
pub fn limited_size_encoded(resource: &EncodedResource) -> usize {
    if resource.deletion_mark().is_some()
        && let Ok(resource) = resource.decode()
    {
        return limited_size(&resource);
    }
    let meta = resource.decode_meta().ok().flatten();
    let kept_by_server = meta.as_ref().map_or(0, resource_meta::server_part_len) + resource.references_len();
    limited(resource.bytes().len().saturating_sub(kept_by_server), resource.version(), resource.deletion_mark())
}

fn limited(size: usize, version: &str, mark: Option<&str>) -> usize {
    // Each entry of a map is a message of its own, with a tag and a length before it, its key, and its value.
    const ENTRY: usize = 6;
    // A mark is a point in time. Whatever else somebody puts there counts.
    const MARK: usize = 40;
    let version = if version.is_empty() { 0 } else { version.len() + 2 };
    let mark = mark.filter(|value| value.len() <= MARK);
    let mark = mark.map_or(0, |value| meta::DELETION_TIMESTAMP.len() + value.len() + ENTRY);
    size.saturating_sub(version + mark)
}

/// A store of resources. See the module's documentation for what every implementation guarantees.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// One resource. An empty uid matches any incarnation.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when absent or stored under another uid; [`StoreError::GroupVersionMismatch`], which
    /// hands over what is stored, when the id's GroupVersion is another one. The uid is judged first.
    async fn read_encoded(&self, consistency: Consistency, id: &pb::Id) -> Result<EncodedResource, StoreError>;

    /// Applies a batch. Returns, for each mutation, the resource as stored after a put or a rewrite that took place,
    /// `None` otherwise.
    ///
    /// # Errors
    /// The first failing expectation or mutation, with nothing applied; [`StoreError::TooLarge`] for a resource whose
    /// [`limited_size`] is over the backend's limit and over that of what is stored; [`StoreError::QuotaExceeded`] for a
    /// batch that is [limited](Batch::limited).
    async fn commit(&self, batch: Batch) -> Result<Vec<Option<EncodedResource>>, StoreError>;

    /// The matching resources of any GroupVersion, as of one commit, in byte order of partition, namespace, name.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn list(&self, consistency: Consistency, query: &Query) -> Result<Vec<pb::Resource>, StoreError>;

    /// As [`Backend::list`], in pages of bounded size, all of them as of one commit.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn scan(&self, query: &Query) -> Result<Box<dyn Cursor>, StoreError>;

    /// As [`Backend::scan`], of a part. Those with a label are found by an index, and those behind a place without
    /// looking at what is before it.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn scan_part(&self, query: &Query, part: &ScanPart) -> Result<Box<dyn Cursor>, StoreError>;

    /// Resources owned by exactly this incarnation (GroupVersion aside), of every type, in no particular order. The
    /// owner may be long gone.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn list_by_owner(&self, owner: &pb::Id) -> Result<Vec<pb::Resource>, StoreError>;

    /// As [`Backend::list_by_owner`], in pages of bounded size, all of them as of one commit, in byte order of type,
    /// partition, namespace, name.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn scan_owned(&self, owner: &pb::Id) -> Result<Box<dyn Cursor>, StoreError>;

    /// Resources that refer to a resource, whatever its uid, by a reference that has this behaviour: those of which
    /// [`pb::Resource::references`] says so. As of one commit, in pages of bounded size, in byte order of type, partition,
    /// namespace, name.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn scan_referrers(&self, target: &ExpectedId, on_delete: OnDelete) -> Result<Box<dyn Cursor>, StoreError>;

    /// Opens a watch: the matching resources as upserts, in the order of a list, the end marker, then every later
    /// change.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn watch_list(&self, query: &Query, after: Option<&Place>) -> Result<Box<dyn Watch>, StoreError>;

    /// Opens a watch of changes: what a [scan](Backend::scan_part) of the part gives, and every later change of what is
    /// or was in it, except those of resources for which one of the terms held neither before nor after; who watches
    /// costs little when these change. Some of them may be told even so.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn open_changes(&self, query: &Query, part: &ScanPart, terms: &[Term]) -> Result<OpenedChanges, StoreError>;

    /// The changes after a position, from the history, whatever the terms, and then as they happen; `None` when the
    /// history does not reach back to it, or when it is of another store.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn changes_after(
        &self,
        query: &Query,
        part: &ScanPart,
        terms: &[Term],
        position: Position,
    ) -> Result<Option<Box<dyn ChangeWatch>>, StoreError>;

    /// A position behind which every change is that was made at this time or later, by `meta.update_time`, and as few
    /// others as can be told; `None` when the history does not reach back so far. Reads the history.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn position_before(&self, time: Timestamp) -> Result<Option<Position>, StoreError>;

    /// Every type of which at least one resource is stored, in byte order.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn types(&self) -> Result<Vec<TypeKey>, StoreError>;

    /// Begins to read the whole store as of the newest commit.
    ///
    /// # Errors
    /// [`StoreError::TooManySnapshots`]; [`StoreError::Poisoned`]; faults of the store itself.
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError>;

    /// What is wrong with the store, as of now and after each change.
    fn health(&self) -> watch::Receiver<Health>;

    /// The store in numbers, as of the newest commit. The first call since the start counts the resources, about a
    /// second for each million, in small steps between which writes go on; later calls know.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn stats(&self) -> Result<Stats, StoreError>;

    /// What tenancies hold, as of the newest commit: totals, the `limit` tenancies with the most bytes, and the `limit`
    /// types with the most resources in one tenancy. Writes wait meanwhile, some 20 ms for 100,000 tenancies.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn usage(&self, limit: usize) -> Result<Usage, StoreError>;

    /// [`Backend::read_encoded`], for who looks into the resource.
    ///
    /// # Errors
    /// As there.
    async fn read(&self, consistency: Consistency, id: &pb::Id) -> Result<pb::Resource, StoreError> {
        Ok(self.read_encoded(consistency, id).await?.decode()?)
    }

    /// [`Backend::commit`] of one put.
    ///
    /// # Errors
    /// As [`Backend::commit`].
    async fn write_cas(&self, resource: pb::Resource) -> Result<pb::Resource, StoreError> {
        let stored = self.commit(Batch::of(Mutation::Put(Box::new(resource)))).await?;
        Ok(stored.into_iter().flatten().next().ok_or(StoreError::Closed)?.decode()?)
    }

    /// [`Backend::commit`] of one put, with [quotas](crate::quota).
    ///
    /// # Errors
    /// As [`Backend::commit`].
    async fn put_limited(&self, resource: pb::Resource) -> Result<EncodedResource, StoreError> {
        let stored = self.commit(Batch::of(Mutation::Put(Box::new(resource))).limited()).await?;
        stored.into_iter().flatten().next().ok_or(StoreError::Closed)
    }

    /// [`Backend::commit`] of one delete.
    ///
    /// # Errors
    /// As [`Backend::commit`].
    async fn delete_cas(&self, id: &pb::Id, version: &str) -> Result<(), StoreError> {
        let mutation = Mutation::Delete { id: id.clone(), version: version.to_owned() };
        self.commit(Batch::of(mutation)).await.map(drop)
    }
}
