//! The whole content of a store as of one commit, as [`Backend::snapshot`](crate::Backend::snapshot) returns it.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::{StoreId, error::StoreError, ids::TypeKey, set_hash::SetHash};

/// Kind of a record of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    /// A stored resource.
    Resource,
    /// An event of the history: the resource was created or replaced.
    Upsert,
    /// An event of the history: the resource was deleted; the payload is its last stored form.
    Delete,
}

/// A piece of a snapshot, in the form in which it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Kind of the record.
    pub kind: RecordKind,
    /// Sequence of the commit that wrote it: the version of a resource, or an event's place in the history.
    pub sequence: u64,
    /// An encoded `hashicorp.consul.resource.Resource`.
    pub payload: Vec<u8>,
}

/// Totals of a snapshot, known before its first record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotHead {
    /// Sequence of the snapshot's commit; 0 before the first one.
    pub sequence: u64,
    /// Number of resources of each type.
    pub resources: BTreeMap<TypeKey, u64>,
    /// Hash of the set of the resources' keys and versions; `None` when unknown.
    pub resources_hash: Option<SetHash>,
    /// Sequence of the oldest event; `sequence + 1` without events. The events are those from here to `sequence`.
    pub first_event: u64,
    /// Number of those sequences without a commit: a store skips some when it was not closed cleanly.
    pub skipped: u64,
    /// Bytes of all events' payloads together.
    pub event_bytes: u64,
}

impl SnapshotHead {
    /// Returns the number of resources.
    #[must_use]
    pub fn resources(&self) -> u64 {
        self.resources.values().sum()
    }

    /// Returns the number of events.
    #[must_use]
    pub fn events(&self) -> u64 {
        (self.sequence + 1).saturating_sub(self.first_event).saturating_sub(self.skipped)
    }
}

/// The whole content of a store as of one commit. Dropping it ends it.
#[async_trait]
pub trait Snapshot: Send {
    /// Returns the totals.
    fn head(&self) -> &SnapshotHead;

    /// Returns the id of the store; `None` if its backend has none.
    fn store_id(&self) -> Option<StoreId> {
        None
    }

    /// Returns the next page of records, some hundred KiB; `None` after the last. Each record comes exactly once, in no
    /// particular order.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], naming a damaged record; other faults of the store. The snapshot is dead after an
    /// error.
    async fn next(&mut self) -> Result<Option<Vec<Record>>, StoreError>;
}
