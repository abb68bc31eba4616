//! Changes with what was before them, from a position on.
//!
//! A position outlives the connection and the process that it was handed out by: who kept one gets every change after
//! it, as long as the history has them. A store that was restored from a backup tells positions of its own past from
//! those of another one.

use async_trait::async_trait;
use mortise_resource::EncodedResource;

use crate::{Cursor, StoreError};

/// A place in the order of commits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Of the last event before it; 0 before the first one.
    pub sequence: u64,
    /// CRC-32 of what that event carries, which tells stores apart that went different ways.
    pub check: u32,
}

/// What a resource was before a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Before {
    /// It was not there.
    Absent,
    /// This.
    Resource(EncodedResource),
    /// The history does not reach back to what it was. It may not have been there, either.
    Unknown,
}

/// A change of one resource.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeEvent {
    /// The commit.
    pub sequence: u64,
    /// What it was.
    pub before: Before,
    /// What it is; `None` after a deletion.
    pub now: Option<EncodedResource>,
}

impl ChangeEvent {
    /// The position behind it.
    #[must_use]
    pub fn position(&self) -> Position {
        let carried = match (&self.now, &self.before) {
            (Some(resource), _) | (None, Before::Resource(resource)) => Some(resource),
            (None, Before::Absent | Before::Unknown) => None,
        };
        carried.map_or_else(Position::default, |resource| Position::of(self.sequence, resource))
    }
}

impl Position {
    /// The position behind the event of a sequence, which carries `resource`.
    pub(crate) fn of(sequence: u64, resource: &EncodedResource) -> Self {
        Self { sequence, check: crc32fast::hash(resource.bytes()) }
    }
}

/// What a watch of changes comes to.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly each is a change, and none is kept")]
pub enum ChangeStep {
    /// A change.
    Change(ChangeEvent),
    /// Everything was handed over that had happened when the watch was opened; once, and only of a watch that begins
    /// [behind a position](crate::Backend::changes_after).
    CaughtUp(Position),
}

/// Changes as they happen, in commit order, each once. Dropping it ends it.
#[async_trait]
pub trait ChangeWatch: Send + Sync {
    /// The next step. Never ends by itself; after an error the watch is dead. Safe to cancel.
    ///
    /// # Errors
    /// [`StoreError::WatchLagged`] when the reader fell too far behind, and [`StoreError::HistoryTrimmed`] when the
    /// history has lost what it was about to read; [`StoreError::Closed`]; faults of the store.
    async fn next(&mut self) -> Result<ChangeStep, StoreError>;

    /// The next change, if it is there and nothing has to be waited for; `None` before the watch has caught up.
    ///
    /// # Errors
    /// As [`ChangeWatch::next`].
    fn ready(&mut self) -> Result<Option<ChangeEvent>, StoreError>;

    /// The newest position of the store, if everything before it that belongs to the watch was handed over.
    fn newest(&self) -> Option<Position>;
}

/// What matches as of one commit, and its changes from there on.
pub struct OpenedChanges {
    /// What matches.
    pub content: Box<dyn Cursor>,
    /// The commit that it is the state of.
    pub position: Position,
    /// What comes after.
    pub changes: Box<dyn ChangeWatch>,
}
