//! Changes with the state before them, from a position on.
//!
//! A position outlives the connection and the process that received it: its holder gets every change after it, as long
//! as the history has them. A store restored from a backup recognizes whether a position belongs to its own past.

use async_trait::async_trait;
use mortise_resource::EncodedResource;

use crate::{Cursor, ListKey, StoreError};

/// A place in the order of commits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Sequence of the last event before the place; 0 before the first event.
    pub sequence: u64,
    /// CRC-32 of that event's resource, which tells diverged stores apart.
    pub check: u32,
}

/// State of a resource before a change.
#[derive(Debug, Clone, PartialEq)]
pub enum PriorState {
    /// The resource did not exist.
    Absent,
    /// The resource as it was.
    Resource(EncodedResource),
    /// The history does not reach back to the earlier state; the resource may not have existed.
    Unknown,
}

/// A change of one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeEvent {
    /// Sequence of the commit.
    pub sequence: u64,
    /// Whether changes of the same batch may follow: [`ChangeWatch::ready`] returns those that do, at once. Always
    /// false before the watch has [caught up](ChangeStep::CaughtUp).
    pub more: bool,
    /// State before the change.
    pub before: PriorState,
    /// State after the change; `None` for a deletion.
    pub now: Option<EncodedResource>,
}

impl ChangeEvent {
    /// Returns the position behind the change.
    #[must_use]
    pub fn position(&self) -> Position {
        let carried = match (&self.now, &self.before) {
            (Some(resource), _) | (None, PriorState::Resource(resource)) => Some(resource),
            (None, PriorState::Absent | PriorState::Unknown) => None,
        };
        carried.map_or_else(Position::default, |resource| Position::after(self.sequence, resource))
    }
}

impl Position {
    /// Makes the position behind the event of a sequence, whose resource is `resource`.
    pub(crate) fn after(sequence: u64, resource: &EncodedResource) -> Self {
        Self { sequence, check: crc32fast::hash(resource.bytes()) }
    }
}

/// A step of a watch of changes.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "almost every step is a change, and steps are not stored")]
pub enum ChangeStep {
    /// A change.
    Change(ChangeEvent),
    /// The watch has delivered everything from before its opening. Comes once, only in watches that start [at a
    /// position](crate::Backend::changes_after).
    CaughtUp(Position),
}

/// A watch of changes, in commit order, each once. Dropping it ends it.
#[async_trait]
pub trait ChangeWatch: Send + Sync {
    /// Returns the next step. Never ends by itself; the watch is dead after an error. Safe to cancel.
    ///
    /// # Errors
    /// [`StoreError::WatchLagged`] when the reader fell too far behind; [`StoreError::HistoryTrimmed`] when the history
    /// has lost the next changes; [`StoreError::Closed`]; faults of the store.
    async fn next(&mut self) -> Result<ChangeStep, StoreError>;

    /// Returns the next change without waiting; `None` if no change is ready, or before the watch has caught up.
    ///
    /// # Errors
    /// As [`ChangeWatch::next`].
    fn ready(&mut self) -> Result<Option<ChangeEvent>, StoreError>;

    /// Returns the newest position of the store, if the watch has delivered everything before it.
    fn newest(&self) -> Option<Position>;
}

/// The content of a query as of one commit, kept while the store goes on: the states that were overwritten since.
/// Dropping it ends it.
///
/// A state that is read from the store is that of the commit, unless its resource is among the overwritten by then.
///
/// # Cost
/// Each overwritten state once, within the bytes that all scans have for these (`store.watch_bytes`): beyond them the
/// scan or the content with the most is ended. A commit compares each of its changes with each kept content.
pub trait PastContent: Send + Sync {
    /// Returns the position of the commit.
    fn position(&self) -> Position;

    /// Returns the states that were overwritten, behind the first `known`, in the order of their first changes; `None`
    /// for resources that did not exist.
    ///
    /// # Errors
    /// [`StoreError::ScanAborted`]: too much was overwritten.
    fn overwritten(&self, known: usize) -> Result<Vec<(ListKey, Option<EncodedResource>)>, StoreError>;
}

/// Matching resources as of one commit, and their changes from there on.
pub struct OpenedChanges {
    /// Scan of the matching resources.
    pub content: Box<dyn Cursor>,
    /// Position of that commit.
    pub position: Position,
    /// Changes after it.
    pub changes: Box<dyn ChangeWatch>,
}
