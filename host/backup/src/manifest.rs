//! The manifest: the first entry of a backup, which says what follows. JSON, so that anybody can read it.

use std::collections::BTreeMap;

use mortise_store::{SnapshotHead, TypeKey};
use serde::{Deserialize, Serialize};

/// The format that this release writes, and the newest that it reads. Raised by whatever an older release would
/// misread; further keys of the manifest are no such thing.
pub const FORMAT_VERSION: u32 = 1;

/// What `format` says.
const FORMAT: &str = "mortise-backup";

/// What is in a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// `mortise-backup`.
    format: String,
    /// The format of the archive.
    pub format_version: u32,
    /// The release that wrote it.
    pub mortise_version: String,
    /// The format of the store that it was taken of.
    pub store_format: u32,
    /// When it was taken, RFC 3339.
    pub taken_at: String,
    /// The commit that it is the state of. Versions go on from here.
    pub commit: u64,
    /// The oldest event of the history; `commit + 1` when there is none.
    pub first_event: u64,
    /// Events of the history.
    pub events: u64,
    /// Their lengths together, bytes.
    pub event_bytes: u64,
    /// The hash of the set of the resources' keys and versions, 32 hexadecimal digits; backups of earlier releases have
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_hash: Option<String>,
    /// Resources, by group and kind.
    pub resources: Vec<TypeCount>,
    /// Components of plugins that the server kept: those that serve, and those before them.
    pub kept_components: u64,
    /// Files of the plugin folder.
    pub folder_files: u64,
    /// Whether the configuration's file is in it.
    pub config: bool,
}

/// How many resources there are of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeCount {
    /// The type's group.
    pub group: String,
    /// The type's kind.
    pub kind: String,
    /// How many.
    pub count: u64,
}

impl Manifest {
    /// Of a snapshot. What stands beside it is filled in by the caller.
    pub(crate) fn new(head: &SnapshotHead, taken_at: String) -> Self {
        let count = |(key, count): (&TypeKey, &u64)| TypeCount {
            group: key.group.clone(),
            kind: key.kind.clone(),
            count: *count,
        };
        Self {
            format: FORMAT.to_owned(),
            format_version: FORMAT_VERSION,
            mortise_version: env!("CARGO_PKG_VERSION").to_owned(),
            store_format: mortise_store::FORMAT,
            taken_at,
            commit: head.sequence,
            first_event: head.first_event,
            events: head.events(),
            event_bytes: head.event_bytes,
            resources_hash: head.resources_hash.map(|hash| hash.to_string()),
            resources: head.resources.iter().map(count).collect(),
            kept_components: 0,
            folder_files: 0,
            config: false,
        }
    }

    /// Whether it says that it is one.
    pub(crate) fn is_one(&self) -> bool {
        self.format == FORMAT
    }

    /// The snapshot that the records are.
    #[must_use]
    pub fn head(&self) -> SnapshotHead {
        let key = |count: &TypeCount| TypeKey { group: count.group.clone(), kind: count.kind.clone() };
        let resources: BTreeMap<_, _> = self.resources.iter().map(|count| (key(count), count.count)).collect();
        SnapshotHead {
            sequence: self.commit,
            resources,
            resources_hash: self.resources_hash.as_ref().and_then(|hash| hash.parse().ok()),
            first_event: self.first_event,
            skipped: self.commit.saturating_add(1).saturating_sub(self.first_event).saturating_sub(self.events),
            event_bytes: self.event_bytes,
        }
    }

    /// What is wrong with its numbers.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if self.commit == u64::MAX || self.first_event == 0 || self.first_event > self.commit.saturating_add(1) {
            return Some("the events are not those before the commit");
        }
        let sum = self.resources.iter().try_fold(0_u64, |sum, count| sum.checked_add(count.count));
        let head = self.head();
        if self.resources_hash.is_some() && head.resources_hash.is_none() {
            return Some("its hash of the resources is not one");
        }
        if sum.is_none() || head.resources.len() != self.resources.len() || head.events() != self.events {
            return Some("its counts do not agree");
        }
        None
    }
}
