//! Watches, their messages and changes.

use serde::{Deserialize, Serialize};

use super::state::{Incarnation, Scope, State};

/// Kind of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// WatchList.
    List,
    /// WatchResource, of a single resource.
    Single,
    /// WatchResources, STATELESS.
    Stateless,
    /// WatchResources, STATEFUL, in the order of names, with so many rows.
    Stateful(usize),
}

/// A change within a message.
#[allow(clippy::large_enum_variant, reason = "most values are of the large variant")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// The resource is there, as this.
    Upsert(State),
    /// The resource is gone; WatchList has its last version.
    Gone {
        /// Deleted incarnation.
        incarnation: Incarnation,
        /// Its last version, if the message has it.
        version: Option<u64>,
    },
    /// A row of a page, put at an index after a removal at another one.
    Row {
        /// Content.
        state: State,
        /// Former index; `None` for a new row.
        previous: Option<usize>,
        /// Index.
        index: usize,
    },
    /// A row leaves the page.
    RowGone {
        /// Incarnation that leaves.
        incarnation: Incarnation,
        /// Its index.
        index: usize,
    },
}

/// A message of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Time after it arrived.
    pub received: u64,
    /// Changes.
    pub changes: Vec<Change>,
    /// Whether the changes up to here are complete.
    pub is_current: bool,
    /// Whether the client must forget the changes since the last complete message.
    pub is_soft_reset: bool,
    /// Whether the client must forget everything.
    pub is_hard_reset: bool,
}

/// An open watch, from its request to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Name of the watch; a watch that resumes another one has its name.
    pub watch: String,
    /// Kind.
    pub mode: Mode,
    /// Watched resources.
    pub scope: Scope,
    /// Time before the request.
    pub begun: u64,
    /// Whether it has a resume token.
    pub is_resumed: bool,
    /// Whether it was read until nothing more could come.
    pub is_complete: bool,
    /// Messages.
    pub messages: Vec<Message>,
    /// Its end.
    #[serde(default)]
    pub end: End,
}

/// End of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum End {
    /// The client ended it, its connection was lost, or its protocol tells no more.
    #[default]
    Open,
    /// The server announced it.
    Announced,
    /// The server ended it without a word.
    Silent,
}

impl Change {
    /// Returns the state in the change.
    #[must_use]
    pub fn state(&self) -> Option<&State> {
        match self {
            Self::Upsert(state) | Self::Row { state, .. } => Some(state),
            Self::Gone { .. } | Self::RowGone { .. } => None,
        }
    }
}
