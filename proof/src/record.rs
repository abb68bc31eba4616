//! The record of a history: calls with their answers, streams with their messages, and faults of the server.
//!
//! Times are microseconds of one monotonic clock, since the beginning of the history. The time of a call begins before
//! its request is sent, and ends after its answer arrived.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// End of a call without an answer.
pub const NEVER: u64 = u64::MAX;

/// Name of a resource, in the order of lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Kind, such as `Artist`; kinds have different names.
    pub kind: String,
    /// Namespace; empty for a namespace itself.
    pub namespace: String,
    /// Name.
    pub name: String,
}

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
    /// Counter of changes of the data, `meta.generation`.
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
    /// Hash of all of its bytes.
    pub digest: u64,
}

/// Resources of a list or a watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Scope {
    /// Kind.
    pub kind: String,
    /// Namespace; `None` for all.
    pub namespace: Option<String>,
}

impl Scope {
    /// Whether a resource belongs to the scope.
    #[must_use]
    pub fn has(&self, key: &Key) -> bool {
        self.kind == key.kind && self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
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

/// Kind of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// WatchList.
    List,
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
}

/// An entry of a record.
#[allow(clippy::large_enum_variant, reason = "most values are of the large variant")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// A call.
    Operation(Operation),
    /// A watch.
    Stream(Stream),
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
            Self::Batch { .. } | Self::List { .. } | Self::Owned { .. } => None,
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
