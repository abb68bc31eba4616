//! Copying the write-ahead log to the tree, and reading the counters of the result.

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

/// Copies to the tree what only the write-ahead log in `dir` has. `data` is the tree's file; `own` is false when the
/// tree is a copy of the log's tree. Returns the checkpoint position afterwards, and whether the tree has everything:
/// without disk space (`room`), the content of the log stays in memory in front of the tree, to be copied later.
///
/// # Errors
/// [`StoreError::Corrupt`] when the log lacks acknowledged data.
pub(crate) fn replay_log(
    dir: &Path,
    table: &Table,
    data: &File,
    room: impl Fn() -> Result<(), StoreError>,
    own: bool,
) -> Result<(CheckpointPosition, bool), StoreError> {
    // The tree as read, with its checkpoint position, may not be on the disk yet.
    data.sync_data().map_err(|source| table.io("sync", source))?;
    let Some((checkpoint, log)) = CheckpointPosition::read(table)? else {
        if wal::size_on_disk(dir) > 0 {
            return Err(table.damaged(keys::CHECKPOINT, "it is missing, though there is a write-ahead log"));
        }
        let checkpoint = CheckpointPosition::new();
        return copy_states(table, data, room, BTreeMap::new(), checkpoint).map(|settled| (checkpoint, settled));
    };
    // The counters may be behind the log, but those of a closed store are right.
    let last_seq = table.get(keys::META)?.and_then(|value| Meta::decode(&value)).map(|meta| meta.last_seq);
    let closed = last_seq.is_some_and(|last_seq| closed_at::is(dir, last_seq));
    if let Some(path) = wal::missing(dir, checkpoint, closed) {
        let what = "it is missing, with the newest commits of the write-ahead log".to_owned();
        return Err(StoreError::Corrupt { path, what });
    }
    let recovered = wal::recover(dir, checkpoint, log)?;
    if recovered.checkpoint != checkpoint {
        if own {
            recovered.secure()?;
        }
        tracing::info!(keys = recovered.states.len(), "copying the write-ahead log to the tree");
        let settled = copy_states(table, data, room, recovered.states, recovered.checkpoint)?;
        return Ok((recovered.checkpoint, settled));
    }
    Ok((recovered.checkpoint, true))
}

/// Copies states to the tree, durably, with the log at `checkpoint`. Without disk space (`room`) the states stay in
/// memory in front of the tree, to be copied later, and the result is false.
pub(crate) fn copy_states(
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
            tracing::error!(%error, "the store opens for reading only: the disk is full");
            table.recent().add_below_active(states);
            Ok(false)
        }
        copied => copied.map(|()| true),
    }
}

/// Returns the counters, checked against the newest event.
pub(crate) fn meta(table: &Table) -> Result<Meta, StoreError> {
    let value = table.get(keys::META)?.ok_or_else(|| table.damaged(keys::META, "it is missing"))?;
    let meta = Meta::decode(&value).ok_or_else(|| table.damaged(keys::META, "the checksum does not match"))?;
    let key = keys::event(meta.last_seq);
    if meta.events().contains(&meta.last_seq) && table.get(&key)?.is_none() {
        return Err(table.damaged(&key, "it is missing, though it is the newest event"));
    }
    Ok(meta)
}
