//! Bringing the tree to where the write-ahead log is, and the counters that say where that is.

use std::{collections::BTreeMap, fs::File, path::Path};

use sled::IVec;

use crate::{
    StoreError,
    engine::{
        files::{closed_at, wal},
        tree::{
            checkpoint,
            checkpoint_position::{CheckpointPosition, LogEnd},
            keys,
            memtable::State,
            record::Meta,
            table::Table,
        },
    },
};

/// Copies to the tree what only the write-ahead log in `dir` has. `data` is the tree's file; `own` says that the log is
/// the tree's own, and not that of which the tree is a copy. Returns the checkpoint position after that, and whether
/// the tree is there: when the disk has no `room`, what the log has stands in front of the tree instead, to be copied
/// later.
///
/// # Errors
/// [`StoreError::Corrupt`] when something acknowledged is not in the log.
pub(crate) fn settle(
    dir: &Path,
    table: &Table,
    data: &File,
    room: impl Fn() -> Result<(), StoreError>,
    own: bool,
) -> Result<(CheckpointPosition, bool), StoreError> {
    // What is seen of the tree, the checkpoint position not least, may not be on the disk yet.
    data.sync_data().map_err(|source| table.io("sync", source))?;
    let Some((checkpoint, log)) = CheckpointPosition::read(table)? else {
        if wal::size_on_disk(dir) > 0 {
            return Err(table.damaged(keys::CHECKPOINT, "it is missing, and there is a write-ahead log"));
        }
        let checkpoint = CheckpointPosition::new();
        return carry(table, data, room, BTreeMap::new(), checkpoint).map(|settled| (checkpoint, settled));
    };
    // What the counters say may be yet to come; those of a closed store are right.
    let last_seq = table.get(keys::META)?.and_then(|value| Meta::decode(&value)).map(|meta| meta.last_seq);
    let closed = last_seq.is_some_and(|last_seq| closed_at::is(dir, last_seq));
    if let Some(path) = wal::missing(dir, checkpoint, closed) {
        let what = "it is not there, and with it what only this file of the write-ahead log had".to_owned();
        return Err(StoreError::Corrupt { path, what });
    }
    let recovered = wal::recover(dir, checkpoint, log)?;
    if recovered.checkpoint != checkpoint {
        if own {
            recovered.secure()?;
        }
        tracing::info!(keys = recovered.states.len(), "the write-ahead log is being copied to the tree");
        let settled = carry(table, data, room, recovered.states, recovered.checkpoint)?;
        return Ok((recovered.checkpoint, settled));
    }
    Ok((recovered.checkpoint, true))
}

/// Copies states to the tree, durably, with the log at `checkpoint`. When the disk has no `room` they stand in front of
/// the tree instead, to be copied later, and the answer is false.
pub(crate) fn carry(
    table: &Table,
    data: &File,
    room: impl Fn() -> Result<(), StoreError>,
    states: BTreeMap<IVec, State>,
    checkpoint: CheckpointPosition,
) -> Result<bool, StoreError> {
    let copies = states.iter().map(|(key, state)| (key.clone(), state.clone()));
    let end = || LogEnd { number: checkpoint.number, ..LogEnd::default() };
    match checkpoint::copy(table, room, || data.sync_data(), copies, checkpoint, end) {
        Err(error @ StoreError::Full { .. }) => {
            tracing::error!(%error, "the store opens for reading");
            table.recent().put_in_front(states);
            Ok(false)
        }
        copied => copied.map(|()| true),
    }
}

/// The counters, checked against the newest event.
pub(crate) fn meta(table: &Table) -> Result<Meta, StoreError> {
    let value = table.get(keys::META)?.ok_or_else(|| table.damaged(keys::META, "it is missing"))?;
    let meta = Meta::decode(&value).ok_or_else(|| table.damaged(keys::META, "the checksum does not match"))?;
    let key = keys::event(meta.last_seq);
    if meta.events().contains(&meta.last_seq) && table.get(&key)?.is_none() {
        return Err(table.damaged(&key, "it is the newest and it is missing"));
    }
    Ok(meta)
}
