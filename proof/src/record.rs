//! The record of a history: calls with their answers, streams with their messages, and faults of the server.
//!
//! Times are microseconds of one monotonic clock, since the beginning of the history. The time of a call begins before
//! its request is sent, and ends after its answer arrived.

mod references;
mod rights;
mod state;
mod streams;

use serde::{Deserialize, Serialize};

pub use references::{DRAFT, NODE, OnDelete, Reference, refers};
pub use rights::{RightsChange, TokenUse, TokenWatch};
pub use state::{DEFAULT_NAMESPACE, Incarnation, Key, NAMESPACE, OPEN_EDITION, PARTITION, Scope, State};
pub use streams::{Change, End, Message, Mode, Stream};

/// End of a call without an answer.
pub const NEVER: u64 = u64::MAX;

/// A request.
#[allow(clippy::large_enum_variant, reason = "most values are of the large variant")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// Read.
    Read {
        /// Name.
        key: Key,
        /// Required uid; empty for any.
        uid: String,
        /// Whether the read asks for the newest state.
        is_consistent: bool,
    },
    /// Read of several resources.
    Batch {
        /// Names.
        keys: Vec<Key>,
    },
    /// Write.
    Write {
        /// Name.
        key: Key,
        /// Required uid; empty for any.
        uid: String,
        /// Required version; `None` for a blanket write.
        version: Option<u64>,
        /// Text in the data.
        content: String,
        /// Owner for a new resource.
        owner: Option<Incarnation>,
        /// Whether the write ends the finalizers.
        releases: bool,
        /// References in the data.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        references: Vec<Reference>,
    },
    /// WriteStatus.
    Status {
        /// Name.
        key: Key,
        /// Required uid.
        uid: String,
        /// Required version, if any.
        version: Option<u64>,
        /// Entry.
        entry: String,
        /// Text of the entry.
        content: String,
    },
    /// Update of the data's text alone.
    Update {
        /// Name.
        key: Key,
        /// Text that the data must have, if any.
        expected: Option<String>,
        /// New text.
        content: String,
    },
    /// Delete.
    Delete {
        /// Name.
        key: Key,
        /// Required uid; empty for any.
        uid: String,
        /// Required version, if any.
        version: Option<u64>,
    },
    /// Move to another kind.
    Move {
        /// Name of the moved resource.
        from: Key,
        /// Required version, if any.
        version: Option<u64>,
        /// New name; only its kind differs.
        to: Key,
    },
    /// Import of an external object.
    Import {
        /// Name.
        key: Key,
        /// External id, which becomes the text in the data.
        content: String,
    },
    /// List, or Search as of one version.
    List {
        /// Listed resources.
        scope: Scope,
        /// Whether the list asks for the newest state.
        is_consistent: bool,
    },
    /// Backup; its answer has all artists, albums and namespaces.
    Backup,
    /// ListByOwner.
    Owned {
        /// Owner.
        owner: Incarnation,
    },
}

/// Answer to a request.
#[allow(clippy::large_enum_variant, reason = "most values are of the large variant")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// A resource.
    Stored(State),
    /// NotFound.
    Absent,
    /// Success without a resource.
    Done,
    /// Several resources.
    Found(Vec<State>),
    /// A refusal without effect.
    Refused {
        /// Name of the code.
        code: String,
        /// Text.
        text: String,
    },
    /// Missing answer, or one that leaves the effect open.
    Unknown,
}

/// A request with its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Number of the client.
    pub client: usize,
    /// Time before the request.
    pub begun: u64,
    /// Time after the answer; [`NEVER`] without one.
    pub ended: u64,
    /// The request.
    pub call: Call,
    /// The answer.
    pub answer: Answer,
}

/// An entry of a record.
#[allow(clippy::large_enum_variant, reason = "most values are of the large variant")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// A call.
    Operation(Operation),
    /// A watch.
    Stream(Stream),
    /// A change of the rights of a token.
    Rights(RightsChange),
    /// A call with a token.
    Use(TokenUse),
    /// A watch with a token.
    Held(TokenWatch),
    /// A fault of the server, in words.
    Fault {
        /// Time.
        time: u64,
        /// Description.
        fault: String,
    },
}

/// A recorded history.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    /// Seed of its random choices.
    pub seed: u64,
    /// Whether several servers were asked: then eventual reads may show earlier states.
    #[serde(default)]
    pub has_several_servers: bool,
    /// Entries in no order.
    pub entries: Vec<Entry>,
    /// Stored resources once all work is done; `None` if the history was cut off.
    pub ending: Option<Vec<State>>,
}

impl History {
    /// Returns the calls.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Operation(operation) => Some(operation),
            _ => None,
        })
    }

    /// Returns the watches.
    pub fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Stream(stream) => Some(stream),
            _ => None,
        })
    }
}

impl Call {
    /// Returns the one resource that the call is about; of a move, the new one.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Read { key, .. }
            | Self::Write { key, .. }
            | Self::Status { key, .. }
            | Self::Update { key, .. }
            | Self::Delete { key, .. }
            | Self::Import { key, .. }
            | Self::Move { to: key, .. } => Some(key),
            Self::Batch { .. } | Self::List { .. } | Self::Backup | Self::Owned { .. } => None,
        }
    }

    /// Whether the call stores a state.
    #[must_use]
    pub fn is_put(&self) -> bool {
        self.changes_state() || matches!(self, Self::Move { .. } | Self::Import { .. })
    }

    /// Whether the call may store a state after another one of the same resource.
    #[must_use]
    pub fn changes_state(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Status { .. } | Self::Update { .. })
    }

    /// Whether the call is content with a recent state.
    #[must_use]
    pub fn is_eventual(&self) -> bool {
        match self {
            Self::Read { is_consistent, .. } | Self::List { is_consistent, .. } => !is_consistent,
            Self::Batch { .. } | Self::Owned { .. } => true,
            _ => false,
        }
    }
}

impl Operation {
    /// Whether the call may have had its effect.
    #[must_use]
    pub fn may_be_done(&self) -> bool {
        !matches!(self.answer, Answer::Refused { .. } | Answer::Absent)
    }

    /// Whether the answer is the last state of a resource that this write removed.
    #[must_use]
    pub fn is_removal(&self) -> bool {
        let releases = matches!(self.call, Call::Write { releases: true, .. });
        releases && matches!(&self.answer, Answer::Stored(state) if state.is_marked && !state.has_finalizers)
    }

    /// Returns the state that a write answered, as its own.
    #[must_use]
    pub fn made(&self) -> Option<&State> {
        self.stored().next().filter(|_| self.call.is_put())
    }

    /// Returns the states in the answer that are stored ones.
    pub fn stored(&self) -> impl Iterator<Item = &State> {
        let (one, many) = match &self.answer {
            Answer::Stored(state) if !self.is_removal() => (Some(state), [].as_slice()),
            Answer::Found(states) => (None, states.as_slice()),
            _ => (None, [].as_slice()),
        };
        one.into_iter().chain(many)
    }
}
