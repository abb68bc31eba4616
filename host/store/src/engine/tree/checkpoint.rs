//! Copying the write-ahead log to the tree, durably.
//!
//! One thread at a time changes sled's keys while a store is open (sled's readers split and merge its pages), and must
//! do so in a certain way. Sled 0.34 deadlocks when small batches are written without a flush after each. Its flush
//! asks the kernel for `sync_file_range`, which does not survive a loss of power. After a loss of power, sled opens
//! again if a small batch is torn; with one of 256 KiB, or with pages missing from several, it sometimes did not
//! (`engine/tests/power.rs`; in 12,000 states with 64 KiB it always did). So: one small batch, one flush, one
//! `fdatasync`, then the next. Sled also blocks readers while it applies a batch.

use std::io;

use sled::IVec;

use crate::{
    StoreError,
    engine::tree::{
        checkpoint_position::{CheckpointPosition, LogEnd},
        keys,
        memtable::State,
        table::Table,
        write_batch,
    },
};

/// Edits at which a batch ends; each may make sled write another page.
pub(crate) const BATCH_EDITS: usize = 64;
/// Bytes at which a batch ends, after the edit that reaches them.
const BATCH_BYTES: usize = 64 << 10;

/// Copies states to the tree and then writes the checkpoint position; everything is durable on return. `sync` makes
/// sled's file durable; `room` runs before each batch, and its error leaves the rest uncopied.
pub(crate) fn copy(
    table: &Table,
    mut room: impl FnMut() -> Result<(), StoreError>,
    mut sync: impl FnMut() -> io::Result<()>,
    states: impl Iterator<Item = (IVec, State)>,
    checkpoint: CheckpointPosition,
    log: impl FnOnce() -> LogEnd,
) -> Result<(), StoreError> {
    let mut write = |batch: sled::Batch| {
        room()?;
        table.write_through(batch)?;
        sync().map_err(|source| table.io("sync", source))
    };
    let (mut batch, mut edits, mut bytes) = (sled::Batch::default(), 0, 0);
    let mut last = sled::Batch::default();
    for (key, state) in states {
        // The counters come after the data that they count, so that they show when the tree has lost its end.
        if *key == *keys::META {
            write_batch::put(&mut last, key, state);
            continue;
        }
        // Most trimmed events were never copied to the tree.
        if state.is_none() && !table.tree_has(&key)? {
            continue;
        }
        edits += 1;
        bytes += key.len() + state.as_ref().map_or(0, |value| value.len());
        write_batch::put(&mut batch, key, state);
        if edits >= BATCH_EDITS || bytes >= BATCH_BYTES {
            write(std::mem::take(&mut batch))?;
            (edits, bytes) = (0, 0);
        }
    }
    if edits > 0 {
        write(batch)?;
    }
    // The checkpoint position must not be durable before the copied states, either.
    last.insert(keys::CHECKPOINT, checkpoint.encode(log()));
    write(last)
}
