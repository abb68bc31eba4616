//! The record of a history: calls with their answers, streams with their messages, and faults of the server.
//!
//! Times are microseconds of one monotonic clock, since the beginning of the history. The time of a call begins before
//! its request is sent, and ends after its answer arrived.

mod rights;
mod streams;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use rights::{RightsChange, TokenUse, TokenWatch};
pub use streams::{Change, Message, Mode, Stream};

/// End of a call without an answer.
pub const NEVER: u64 = u64::MAX;

/// Name of a resource, in the order of lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Kind, such as `Artist`; kinds have different names.
    pub kind: String,
    /// Namespace, such as `a`; `p/a` in another partition than `default`; empty for a namespace or a partition itself.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Kind of partitions.
pub const PARTITION: &str = "Partition";
/// Kind of namespaces.
pub const NAMESPACE: &str = "Namespace";
/// The namespace that always exists.
pub const DEFAULT_NAMESPACE: &str = "default";

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Incarnation of a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation {
    /// Name.
    pub key: Key,
    /// Uid.
    pub uid: String,
}

/// A resource under one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Name.
    pub key: Key,
    /// Uid.
    pub uid: String,
    /// Version.
    pub version: u64,
    /// Generation, a ULID.
    pub generation: String,
    /// Counter of changes of the data, `meta.generation`; [`OPEN_EDITION`] if the answer did not have it.
    pub edition: i64,
    /// Text that the writer put into the data; no two writes of a history have the same.
    pub content: String,
    /// Owner, if any.
    pub owner: Option<Incarnation>,
    /// Whether the resource is marked for deletion.
    pub is_marked: bool,
    /// Whether the resource has finalizers.
    pub has_finalizers: bool,
    /// Texts of the status entries.
    pub statuses: BTreeMap<String, String>,
    /// Hash of all of its bytes; 0 if the answer did not have all of it.
    pub digest: u64,
}

/// Value of [`State::edition`] in answers without it.
pub const OPEN_EDITION: i64 = -1;

impl State {
    /// Whether the answer had only a part of the resource.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.digest == 0
    }

    /// Whether two answers may show the same state of the same version.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        if !self.is_partial() && !other.is_partial() {
            return self == other;
        }
        let known = Self { edition: other.edition, digest: other.digest, ..self.clone() };
        known == *other
    }
}

/// Resources of a list or a watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Scope {
    /// Kind.
    pub kind: String,
    /// Namespace; `None` for all.
    pub namespace: Option<String>,
    /// Name; `None` for all.
    #[serde(default)]
    pub name: Option<String>,
}

impl Scope {
    /// Whether a resource belongs to the scope.
    #[must_use]
    pub fn has(&self, key: &Key) -> bool {
        self.kind == key.kind
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
            && self.name.as_ref().is_none_or(|name| *name == key.name)
    }
}

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
    /// Returns the one resource that the call is about.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Read { key, .. }
            | Self::Write { key, .. }
            | Self::Status { key, .. }
            | Self::Update { key, .. }
            | Self::Delete { key, .. } => Some(key),
            Self::Batch { .. } | Self::List { .. } | Self::Backup | Self::Owned { .. } => None,
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
        let is_put = matches!(self.call, Call::Write { .. } | Call::Status { .. } | Call::Update { .. });
        self.stored().next().filter(|_| is_put)
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
