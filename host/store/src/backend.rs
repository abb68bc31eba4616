//! The storage contract.
//!
//! A backend keeps whole resources and changes them by compare-and-swap only; unconditional writes, defaults, tenancy
//! and hooks are the caller's task. Another process may serve this contract one day: so no call returns a reference
//! into a store or assumes that the caller's view is the newest.
//!
//! # Words
//! - An *incarnation* of a resource is its life from creation to deletion, identified by its uid.
//! - A *unit* is a partition or a namespace.
//! - An *event* is a put or a delete that had an effect. Its *sequence* is its number in the order of all events, and,
//!   in decimal, the version of a resource that was put.
//! - The *history* is the newest events, kept on disk within bounds.
//! - A *generation* is set by the caller; the store only compares it ([`Expectation`]).
//!
//! # Guarantees
//! - **Durable before acknowledged.** When [`Backend::commit`] returns, the batch survives loss of power.
//! - **All or nothing.** A batch of up to [`ATOMIC_CHANGES`] mutations and conditions is applied whole, over every index,
//!   or not at all. A store that is shared by several servers may apply a larger one in parts, in an order in which every
//!   prefix of the batch makes sense, and judges all of it before the first part.
//! - **Published only.** Reads, lists and watches see only committed, durable state.
//! - **Monotonic.** On one backend a read never shows an older state than an earlier read or a delivered event did.
//! - **Ordered.** A watch delivers events in commit order, each once, after a snapshot that is no older than the call.
//!   The events of one batch become ready together, and those of other batches come before or after all of them.
//!   A resource that changes its GroupVersion is an event for the readers of both.
//! - **Strong reads** ([`Consistency::Consistent`]) show every write acknowledged before the call.
//! - **Snapshots** ([`Backend::snapshot`]) are the whole content as of one commit, events included, however long the
//!   reading takes; writes meanwhile change nothing in them.
//!
//! # Cost
//! Read is a point lookup; List, ListByOwner and wildcards are range scans over what they return, never over the store.
//! A list holds its whole result in memory; a scan, a snapshot and the initial content of a watch hold one page. A
//! snapshot makes no writer wait.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use async_trait::async_trait;
use mortise_resource::{EncodedResource, data::OnDelete, pb};
use prost_types::Timestamp;
use tokio::sync::watch;

use crate::{
    StoreId,
    changes::{ChangeWatch, OpenedChanges, PastContent, Position},
    copies::{CopyCursor, CopyRequest},
    error::StoreError,
    ids::{ExpectedId, ListKey, TypeKey},
    members::Members,
    quota::Usage,
    referrers::ExpectedReferrers,
    snapshot::{Snapshot, SnapshotHead},
    terms::Term,
};

/// Largest batch that every store applies all or nothing, in mutations and conditions together. Its resources may take a
/// mebibyte together, or it may have only one.
pub const ATOMIC_CHANGES: usize = 100;

/// Freshness of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Consistency {
    /// Monotonic on this backend: never older than an earlier read or event.
    #[default]
    Eventual,
    /// Linearizable: shows every write acknowledged before the call.
    Consistent,
}

/// The resources of a list or a watch, of any GroupVersion.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Query {
    /// The type.
    pub type_key: TypeKey,
    /// Tenancy; `*` in a unit means all values, an empty unit means resources that have it empty.
    pub tenancy: pb::Tenancy,
    /// Prefix of the names; empty for all.
    pub name_prefix: String,
}

/// Part of a query that a scan returns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScanPart {
    /// Label that the resources must have, with its value; `None` for all.
    pub label: Option<(String, String)>,
    /// Place behind which the scan starts, in the order of lists; `None` for the beginning.
    pub after: Option<ListKey>,
}

/// Change within a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Mutation {
    /// Creates (empty `version`) or replaces (the stored `version`) a whole resource.
    ///
    /// The id must be complete: type, tenancy, name, uid. The store sets the version, also in `meta` if there is one.
    /// Fails with [`StoreError::WrongUid`] when another incarnation is stored, which is checked first, and with
    /// [`StoreError::CasFailure`] when the version is not the stored one: also for a version with an absent resource
    /// and for no version with a present one. The GroupVersion is never checked.
    Put(Box<pb::Resource>),
    /// Deletes a resource. Does nothing, without an error, when the resource is absent or stored under another uid (an
    /// empty uid counts as another). Fails with [`StoreError::CasFailure`] when the version is not the stored one, or
    /// empty.
    Delete {
        /// Incarnation to delete.
        id: pb::Id,
        /// Version that it must have.
        version: String,
    },
    /// Replaces the stored form of the resource with exactly this uid and version, for example by data of a newer
    /// schema. Version and history stay as they are, since clients see no change. Does nothing, without an error, when
    /// the resource is absent or stored under another uid or version.
    Rewrite(Box<pb::Resource>),
}

/// Condition of a batch on a resource that the batch does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// A resource that must exist; with a non-empty uid, in this incarnation.
    pub id: ExpectedId,
    /// Required generation; `None` for any. Status writes do not change it.
    pub generation: Option<String>,
    /// Whether the resource must have no deletion mark.
    pub is_unmarked: bool,
}

/// Changes that are applied together or not at all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// Conditions, checked first; the first that does not hold fails the batch with [`StoreError::ExpectationFailed`].
    pub expect: Vec<Expectation>,
    /// Expected references, checked second; a difference fails the batch with [`StoreError::ReferrersChanged`].
    pub referrers: Vec<ExpectedReferrers>,
    /// Mutations, applied in order; each sees the earlier ones. Each put and delete with an effect becomes one event
    /// with its own version.
    pub mutations: Vec<Mutation>,
    /// Whether the batch is part of a deletion; such a batch is accepted even on a full disk, with everything else that
    /// it puts. A batch with a delete always is.
    pub belongs_to_deletion: bool,
    /// Whether [quotas](crate::quota) apply, to the net effect of all mutations. Not set for the host's own writes, nor
    /// for deletions and their marks.
    pub limited: bool,
    /// Type whose resources do not count for the quotas of this batch.
    pub unlimited: Option<TypeKey>,
    /// Work that one server of a shared store does at a time, by the name of its lease, if the batch is a part of such
    /// work. The batch is refused with [`StoreError::NotHeld`] unless this server holds it at the commit.
    pub held: Option<Arc<str>>,
}

impl Batch {
    /// Makes a batch of one change, without expectations and quotas.
    #[must_use]
    pub fn single(mutation: Mutation) -> Self {
        Self::new(vec![mutation])
    }

    /// Makes a batch of several changes, without expectations and quotas.
    #[must_use]
    pub fn new(mutations: Vec<Mutation>) -> Self {
        Self { mutations, ..Self::default() }
    }

    /// Returns the batch as a part of work that one server does at a time.
    #[must_use]
    pub fn held(self, held: Option<Arc<str>>) -> Self {
        Self { held, ..self }
    }

    /// Returns the batch with quotas.
    #[must_use]
    pub fn limited(self) -> Self {
        Self { limited: true, ..self }
    }
}

/// A change as watchers see it. A delete carries the whole last stored resource. The replacement of a resource by one
/// of another GroupVersion is a delete of the former and an upsert, so that readers of one GroupVersion keep nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// Created or replaced, or part of the snapshot.
    Upsert(EncodedResource),
    /// Deleted.
    Delete(EncodedResource),
    /// The snapshot is complete; sent exactly once, also when it was empty.
    EndOfSnapshot,
}

/// A running scan: the resources of a query or an owner as of the commit at which it was opened, page by page. Dropping
/// it ends it.
///
/// A scan holds one page, and the resources still to come that changed since it was opened. It reads no page before it
/// is asked for one.
#[async_trait]
pub trait Cursor: Send {
    /// Returns the next resources, in the order of the scan: at least one, at most some thousand or about a MiB, plus
    /// those among them that changed meanwhile. `None` after the last, also in all later calls. Safe to cancel: the
    /// next call returns a page that was not delivered.
    ///
    /// # Errors
    /// Faults of the store, [`StoreError::Unreadable`], [`StoreError::ScanAborted`], [`StoreError::Closed`] once the
    /// store is dropped. The cursor is dead after an error.
    async fn next(&mut self) -> Result<Option<Vec<EncodedResource>>, StoreError>;

    /// Whether the scan is known to be complete.
    fn is_at_end(&self) -> bool {
        false
    }
}

/// An open watch. Dropping it closes it.
#[async_trait]
pub trait Watch: Send {
    /// Returns the next event. Never ends by itself; the watch is dead after an error.
    ///
    /// # Errors
    /// [`StoreError::WatchLagged`] when the reader fell further behind than the backend buffers;
    /// [`StoreError::WatchClosed`] when the backend replaced its content; [`StoreError::Closed`] at shutdown.
    async fn next(&mut self) -> Result<WatchEvent, StoreError>;

    /// Returns the next event if one is ready. Otherwise the task is woken once there may be one, provided that the
    /// watch has delivered [`WatchEvent::EndOfSnapshot`]; before that, only [`Watch::next`] goes on.
    ///
    /// # Errors
    /// As [`Watch::next`].
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<WatchEvent, StoreError>>;

    /// Returns the next event without waiting; `None` if no event is ready. Takes the place of a waker that
    /// [`Watch::poll_ready`] got, so a task that waits polls again.
    ///
    /// # Errors
    /// As [`Watch::next`].
    fn ready(&mut self) -> Result<Option<WatchEvent>, StoreError> {
        match self.poll_ready(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => event.map(Some),
            Poll::Pending => Ok(None),
        }
    }
}

/// Figures of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Totals that a snapshot would have now.
    pub head: SnapshotHead,
    /// Bytes of the store's files.
    pub bytes_on_disk: u64,
    /// Number of snapshots that are being read.
    pub snapshots: usize,
    /// Faults of the store.
    pub health: Health,
}

/// Faults of a store, each in a sentence; `None` without the fault.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Reason why every write is refused until a restart: the outcome of a failed write is unknown.
    pub poisoned: Option<String>,
    /// Reason why writes that need disk space are refused until there is some.
    pub full: Option<String>,
    /// Resources that are missing, or not as they were acknowledged.
    pub damaged: Option<String>,
    /// Reason why the shared store behind this one cannot be reached: writes and consistent reads fail meanwhile, other
    /// reads may be stale.
    pub away: Option<String>,
}

impl Health {
    /// Whether the store does its job. A full disk counts as ready: its operator has to free space, and a restart would
    /// not help.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.poisoned.is_none() && self.damaged.is_none() && self.away.is_none()
    }
}

/// A store of resources. The module's documentation has the guarantees of every implementation.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Returns a resource. An empty uid matches any incarnation.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the resource is absent or stored under another uid, which is checked first;
    /// [`StoreError::GroupVersionMismatch`], with the stored resource, when the id has another GroupVersion.
    async fn read_encoded(&self, consistency: Consistency, id: &pb::Id) -> Result<EncodedResource, StoreError>;

    /// Applies a batch. Returns, for each mutation, the stored resource after an effective put or rewrite, and `None`
    /// otherwise.
    ///
    /// # Errors
    /// The first failing expectation or mutation, with nothing applied; [`StoreError::TooLarge`] for a resource whose
    /// [`limited_size`](crate::limited_size) is over the backend's limit and over the size of the stored resource;
    /// [`StoreError::QuotaExceeded`] for a [limited](Batch::limited) batch.
    async fn commit(&self, batch: Batch) -> Result<Vec<Option<EncodedResource>>, StoreError>;

    /// Returns the running servers that share the store, by their names; `None` for a store of one server.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`].
    async fn members(&self) -> Result<Option<Members>, StoreError> {
        Ok(None)
    }

    /// Returns true if eventual reads may lack acknowledged writes: those of other servers that share the store.
    fn reads_may_lag(&self) -> bool {
        false
    }

    /// Waits until eventual reads, lists and scans show every write that was acknowledged before the call, by any
    /// server of a shared store.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`].
    async fn catch_up(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the matching resources of any GroupVersion, as of one commit, in byte order of partition, namespace,
    /// name.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn list(&self, consistency: Consistency, query: &Query) -> Result<Vec<pb::Resource>, StoreError>;

    /// Scans as [`Backend::list`], in pages of bounded size, all as of one commit.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn scan(&self, query: &Query) -> Result<Box<dyn Cursor>, StoreError>;

    /// Scans as [`Backend::scan`], and copies the resources of one GroupVersion into fields of a message.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn scan_copies(&self, query: &Query, request: CopyRequest) -> Result<Box<dyn CopyCursor>, StoreError>;

    /// Scans a part of a query. An index finds resources by label, and a scan behind a place does not read what
    /// is before it.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn scan_part(&self, query: &Query, part: &ScanPart) -> Result<Box<dyn Cursor>, StoreError>;

    /// Returns the resources of every type that exactly this incarnation owns (GroupVersion aside), in no particular
    /// order. The owner itself may be deleted.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn list_by_owner(&self, owner: &pb::Id) -> Result<Vec<pb::Resource>, StoreError>;

    /// Scans as [`Backend::list_by_owner`], in pages of bounded size, all as of one commit, in byte order of type,
    /// partition, namespace, name.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn scan_owned(&self, owner: &pb::Id) -> Result<Box<dyn Cursor>, StoreError>;

    /// Scans the resources that refer to a resource of any uid by a reference with this behaviour, according to
    /// [`pb::Resource::references`]. As of one commit, in pages of bounded size, in byte order of type, partition,
    /// namespace, name.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn scan_referrers(&self, target: &ExpectedId, on_delete: OnDelete) -> Result<Box<dyn Cursor>, StoreError>;

    /// Opens a watch: the matching resources as upserts, in the order of a list, the end marker, then every later
    /// change. Changes of resources in other places cost the watch little.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn watch_list(&self, query: &Query, after: Option<&ListKey>) -> Result<Box<dyn Watch>, StoreError>;

    /// Opens a watch of changes: the content that a [scan](Backend::scan_part) of the part returns, and every later
    /// change of resources that are or were in it. The store may leave out a change if one of the terms held neither
    /// before nor after it, or if the query asks for another place; such changes cost the watch little.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn open_changes(&self, query: &Query, part: &ScanPart, terms: &[Term]) -> Result<OpenedChanges, StoreError>;

    /// Watches the changes after a position, first from the history, regardless of the terms, then as they happen.
    /// `None` when the history does not reach back to the position, or when the position is of another store.
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

    /// Keeps the content of a query as of the newest commit.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn keep(&self, query: &Query) -> Result<Box<dyn PastContent>, StoreError>;

    /// Returns a position before every change made at this time or later, by `meta.update_time`, and with as few
    /// earlier changes behind it as possible; `None` when the history does not reach back so far. Reads the history.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn position_before(&self, time: Timestamp) -> Result<Option<Position>, StoreError>;

    /// Returns every type with at least one stored resource, in byte order.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn types(&self) -> Result<Vec<TypeKey>, StoreError>;

    /// Begins to read the whole store as of the newest commit.
    ///
    /// # Errors
    /// [`StoreError::TooManySnapshots`]; [`StoreError::Poisoned`]; faults of the store itself.
    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError>;

    /// Returns the newest version that reads show, as a number; 0 before the first write. Every version in an answer is
    /// at most this one, and each later write gets a larger one.
    fn newest_version(&self) -> u64;

    /// Returns the id of the store, which no other store has.
    fn store_id(&self) -> StoreId;

    /// Reports the faults of the store, now and after each change.
    fn health(&self) -> watch::Receiver<Health>;

    /// Returns the figures of the store as of the newest commit. The totals are kept with each commit, so nothing is
    /// counted.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn stats(&self) -> Result<Stats, StoreError>;

    /// Returns the use of tenancies as of the newest commit: totals, the `limit` tenancies with the most bytes, and the
    /// `limit` types with the most resources in one tenancy. Writes wait meanwhile, some 20 ms for 100,000 tenancies.
    ///
    /// # Errors
    /// Only faults of the store itself.
    async fn usage(&self, limit: usize) -> Result<Usage, StoreError>;

    /// Reads as [`Backend::read_encoded`], and decodes.
    ///
    /// # Errors
    /// As [`Backend::read_encoded`].
    async fn read(&self, consistency: Consistency, id: &pb::Id) -> Result<pb::Resource, StoreError> {
        Ok(self.read_encoded(consistency, id).await?.decode()?)
    }

    /// [`Backend::commit`] of one put.
    ///
    /// # Errors
    /// As [`Backend::commit`].
    async fn write_cas(&self, resource: pb::Resource) -> Result<pb::Resource, StoreError> {
        let stored = self.commit(Batch::single(Mutation::Put(Box::new(resource)))).await?;
        Ok(stored.into_iter().flatten().next().ok_or(StoreError::Closed)?.decode()?)
    }

    /// [`Backend::commit`] of one put, with [quotas](crate::quota).
    ///
    /// # Errors
    /// As [`Backend::commit`].
    async fn put_limited(&self, resource: pb::Resource) -> Result<EncodedResource, StoreError> {
        let stored = self.commit(Batch::single(Mutation::Put(Box::new(resource))).limited()).await?;
        stored.into_iter().flatten().next().ok_or(StoreError::Closed)
    }

    /// [`Backend::commit`] of one delete.
    ///
    /// # Errors
    /// As [`Backend::commit`].
    async fn delete_cas(&self, id: &pb::Id, version: &str) -> Result<(), StoreError> {
        let mutation = Mutation::Delete { id: id.clone(), version: version.to_owned() };
        self.commit(Batch::single(mutation)).await.map(drop)
    }
}
