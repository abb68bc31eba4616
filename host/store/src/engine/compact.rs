//! Compaction: writing a closed store's tree again, without the space that sled never gives back.
//!
//! Sled reuses the space of what was deleted, and never shortens its file. So the keys are copied, value by value, to a
//! new tree in `store.new`; it is compared with the sums and made durable; then the two directories change their names
//! in one step, and the former one is removed. A kill or a loss of power at any moment leaves the one store or the
//! other, whole, and the next opening removes the rest. Versions, history and id stay.
//!
//! Some file systems, such as NFS, cannot exchange two names. There the former store is renamed to `store.former`, and
//! then the new one to `store`. An opening that finds no `store` gives the former one its name back.
//!
//! # Cost
//! Disk space for the new store beside the old one; some 20 MB of content each second. In memory: the opened store's
//! history, two caches of [`CACHE_BYTES`], a batch, and what sled keeps of each page, about half of the new file's
//! bytes.

use std::{fs, io, path::Path};

use mortise_durable_fs::{remove, sync};
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

use super::{
    Options, SledBackend,
    files::{
        closed_at,
        layout::{self, DB, FORMER, STORE, UNFINISHED},
        recovery, store_id, wal,
    },
    open,
    tree::{keys, panics::catch_sled_panic, sled_file::open_sled, sums::Sums, table::Table},
};
use crate::{Backend as _, StoreError, error::io_fault};

/// Memory for the cache of each of the two trees, bytes.
const CACHE_BYTES: u64 = 8 << 20;
/// Bytes of a batch: larger batches are faster, and are held in memory.
const BATCH_BYTES: usize = 1 << 20;

/// Sizes of a store's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// Bytes before.
    pub before: u64,
    /// Bytes after; as many as before if the new store would not be smaller.
    pub after: u64,
}

/// Compacts the store in `path`.
pub(crate) fn compact(path: &Path) -> Result<Compaction, StoreError> {
    compact_with(path, |one, other| renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE))
}

/// Compacts as [`compact`]; `exchange` exchanges the names of two directories, where the file system can.
pub(super) fn compact_with(
    path: &Path,
    exchange: impl FnOnce(&Path, &Path) -> Result<(), Errno>,
) -> Result<Compaction, StoreError> {
    if layout::store_dir(path).is_none() {
        return Err(StoreError::Absent { path: path.to_owned() });
    }
    settle(path)?;
    let lock = layout::lock(path)?;
    let dir = path.join(STORE);
    let unfinished = path.join(UNFINISHED);
    remove(&unfinished)?;
    let before = layout::size(&dir)?;
    let made = catch_sled_panic(&dir.join(DB), || copy(&dir, &unfinished)).and_then(|()| layout::size(&unfinished));
    let exchanged = match made {
        Ok(after) if after < before => match exchange(&unfinished, &dir) {
            // Linux before 3.15, and file systems without the exchange.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => rename_both(path, &unfinished, &dir).map(|()| after),
            done => done.map(|()| after).map_err(|e| io_fault(&dir, "exchange with the compacted store")(e.into())),
        },
        Ok(_) => Ok(before),
        Err(error) => Err(error),
    };
    if exchanged.is_ok() {
        // The new names must be durable before the former store goes.
        sync(path)?;
    }
    remove(&unfinished)?;
    layout::settle_former(path)?;
    sync(path)?;
    drop(lock);
    Ok(Compaction { before, after: exchanged? })
}

/// Copies the log of the store to its tree, compares its content, and closes it.
fn settle(path: &Path) -> Result<(), StoreError> {
    let options = Options { compare_at_start: true, scrub_per_second: 0, ..Options::new(path) };
    let store = SledBackend::open(options)?;
    store.close();
    let health = store.health().borrow().clone();
    let fault = [health.damaged, health.poisoned, health.full].into_iter().flatten().next();
    match fault {
        None => Ok(()),
        Some(what) => Err(io_fault(&path.join(STORE), "compact")(io::Error::other(what))),
    }
}

/// Copies the closed store in `dir` to `unfinished`, durably.
fn copy(dir: &Path, unfinished: &Path) -> Result<(), StoreError> {
    let (from_file, to_file) = (dir.join(DB), unfinished.join(DB));
    let from = Table::new(open_sled(dir, &from_file, CACHE_BYTES)?, from_file.clone());
    let meta = recovery::meta(&from)?;
    if wal::size_on_disk(dir) > 0 || !closed_at::is(dir, meta.last_seq) {
        return Err(io_fault(dir, "compact")(io::Error::other("it is not closed; compact it again")));
    }
    let id = store_id::check(&from, dir)?.unwrap_or_else(store_id::StoreId::generate);
    fs::create_dir(unfinished).map_err(io_fault(unfinished, "make"))?;
    let to = Table::new(open_sled(unfinished, &to_file, CACHE_BYTES)?, to_file);
    let (mut batch, mut bytes) = (sled::Batch::default(), 0);
    for item in from.range(Vec::new()..) {
        let (key, value) = item?;
        // A new store has no log yet, and no position in it.
        if *key == *keys::CHECKPOINT {
            continue;
        }
        bytes += key.len() + value.len();
        batch.insert(key, value);
        if bytes >= BATCH_BYTES {
            to.write_through(std::mem::take(&mut batch))?;
            bytes = 0;
        }
    }
    to.write_through(batch)?;
    let sums = Sums::read(&to, &meta)?;
    if let Some(problem) = open::compare_content(&to, unfinished, meta, &sums).into_iter().next() {
        return Err(StoreError::Corrupt { path: from_file, what: problem.to_string() });
    }
    drop((from, to));
    closed_at::set(unfinished, meta.last_seq)?;
    open::seal(unfinished, id)
}

/// Renames the store to [`FORMER`], and then the new one to the store. After a fault in between,
/// [`layout::settle_former`] gives the former store its name back.
fn rename_both(path: &Path, unfinished: &Path, dir: &Path) -> Result<(), StoreError> {
    fs::rename(dir, path.join(FORMER)).map_err(io_fault(dir, "rename to store.former"))?;
    // After a loss of power the first rename must not be missing behind the second.
    sync(path)?;
    fs::rename(unfinished, dir).map_err(io_fault(unfinished, "rename to store"))
}
