//! The manifest: the first entry of a backup, in JSON, describes the others.

use std::collections::BTreeMap;

use mortise_store::{SnapshotHead, StoreId, TypeKey};
use serde::{Deserialize, Serialize};

/// Format that this release writes, and the newest that it reads. Raised by changes that an older release would
/// misread; new keys in the manifest do not count.
pub const FORMAT_VERSION: u32 = 1;

/// Value of the key `format`.
const FORMAT: &str = "mortise-backup";

/// Description of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always `mortise-backup`.
    format: String,
    /// Format of the archive.
    pub format_version: u32,
    /// Release that wrote it.
    pub mortise_version: String,
    /// Format of the store that was backed up.
    pub store_format: u32,
    /// Id of the store that was backed up; missing in backups of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_id: Option<String>,
    /// Time of the backup, RFC 3339.
    pub taken_at: String,
    /// Commit of the backed-up state. Versions continue from here.
    pub commit: u64,
    /// Sequence of the oldest event of the history; `commit + 1` without events.
    pub first_event: u64,
    /// Number of events in the history.
    pub events: u64,
    /// Bytes of all events together.
    pub event_bytes: u64,
    /// Hash of the set of the resources' keys and versions, 32 hexadecimal digits; missing in backups of earlier
    /// releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources_hash: Option<String>,
    /// Number of resources by group and kind.
    pub resources: Vec<TypeCount>,
    /// Number of plugin components that the server keeps: those in use, and their predecessors.
    pub kept_components: u64,
    /// Number of files of the plugin folder.
    pub folder_files: u64,
    /// Whether the backup contains the configuration file.
    pub config: bool,
}

/// Number of resources of a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeCount {
    /// The type's group.
    pub group: String,
    /// The type's kind.
    pub kind: String,
    /// Number of resources.
    pub count: u64,
}

impl Manifest {
    /// Describes a snapshot. The caller fills in the counts of files.
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
            store_id: None,
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

    /// Whether `format` has the value of a backup.
    pub(crate) fn is_backup_manifest(&self) -> bool {
        self.format == FORMAT
    }

    /// Returns the totals of the snapshot that the records come from.
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

    /// Returns the fault of contradictory numbers, if any.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if self.commit == u64::MAX || self.first_event == 0 || self.first_event > self.commit.saturating_add(1) {
            return Some("the events are not those before the commit");
        }
        let sum = self.resources.iter().try_fold(0_u64, |sum, count| sum.checked_add(count.count));
        let head = self.head();
        if self.resources_hash.is_some() && head.resources_hash.is_none() {
            return Some("resources_hash is not 32 hexadecimal digits");
        }
        if self.store_id.as_ref().is_some_and(|id| id.parse::<StoreId>().is_err()) {
            return Some("store_id is not the id of a store");
        }
        if sum.is_none() || head.resources.len() != self.resources.len() || head.events() != self.events {
            return Some("its counts do not agree");
        }
        None
    }
}
