//! Entry points for `fuzz/`: decoders of stored bytes.

use crate::{Comparison, Record, RecordKind, SnapshotHead, engine};

/// Reads bytes as a value of the tree, as a record of the log and its edits, and as a record of a backup.
pub fn stored(bytes: &[u8]) {
    engine::fuzz(bytes);
    for kind in [RecordKind::Resource, RecordKind::Upsert, RecordKind::Delete] {
        let head = SnapshotHead { sequence: u64::MAX - 1, first_event: 0, ..SnapshotHead::default() };
        let _ = Comparison::new(head).add(&Record { kind, sequence: 7, payload: bytes.to_vec() });
    }
}
