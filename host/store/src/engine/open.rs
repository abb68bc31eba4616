//! Opening a store, and making one.
//!
//! ```text
//! <path>/lock            locked while the store is open
//! <path>/store/format    the format number
//! <path>/store/closed-at the commit with which it was closed last
//! <path>/store/wal.{0,1} the write-ahead log
//! <path>/store/{db,conf,blobs/,snap.*}   sled's
//! <path>/store.new/      a store in the making; removed when found
//! <path>/check-…/        a copy that a check works on; removed when found
//! ```
//!
//! Sled never syncs its `conf` file nor its directory, so a store is made in `store.new`: every file and directory is
//! synced, then the directory is renamed and the parent synced. A store is there whole or not at all.

use std::{
    fs::{self, File, TryLockError},
    io,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{
    Shared, SledBackend,
    commit::{
        checkpoint::{self, Checkpoints},
        commit_thread::Committer,
        history::History,
        queue::Queue,
    },
    files::{
        closed_at, format,
        wal::{self, SyncDisk, Wal},
    },
    options::Options,
    panic_text,
    read::{publisher::Publisher, walk},
    tree::{
        checkpoint_position::CheckpointPosition,
        keys,
        record::Meta,
        table::{Table, fault},
    },
};
use crate::StoreError;

/// The store itself, in its path.
pub(crate) const STORE: &str = "store";
/// A store in the making.
pub(crate) const UNFINISHED: &str = "store.new";
/// What begins the name of a copy that a check works on.
pub(crate) const COPY: &str = "check-";
/// The lock file.
const LOCK: &str = "lock";
/// Sled's data file.
pub(crate) const DB: &str = "db";
/// Sled's default, written down because it is part of the format: sled refuses another one than the file was made with.
const SEGMENT_BYTES: usize = 512 * 1024;
/// Scans that may run beside each other on blocking threads.
const LONG_SCANS: usize = 4;

/// Opens or makes a store. `sync` replaces the sync of the disk, for tests.
pub(crate) fn open(options: Options, sync: Option<SyncDisk>) -> Result<SledBackend, StoreError> {
    let options = options.in_range();
    let path = options.path.clone();
    make_dir(&path)?;
    let lock = lock(&path)?;
    let dir = path.join(STORE);
    let unfinished = path.join(UNFINISHED);
    // Whoever made the store may have been killed before its name was durable; nobody may write to it before it is.
    sync_path(&path)?;
    // Whoever left it did not get to the rename, and we have the lock.
    remove(&unfinished)?;
    remove_copies(&path)?;
    if !dir.exists() {
        create(&unfinished, &options)?;
        complete(&path, &unfinished)?;
    }
    let format = format::judge(&path, &dir)?;
    remove_unfinished_snapshots(&dir)?;

    let file = dir.join(DB);
    if wal::size_on_disk(&dir) > 0 {
        read_anew(&file)?;
    }
    let table = Table::new(open_sled(&dir, &file, options.cache_bytes)?, file.clone());
    // Sled renamed a snapshot into place.
    sync_path(&dir)?;
    let data = data_file(&file)?;
    let checkpoint = settle(&dir, &table, &data, true)?;
    let meta = meta(&table)?;
    if let Some(what) = closed_at::judge(&dir, meta.last_seq)? {
        return Err(StoreError::Corrupt { path: file, what });
    }
    let types = walk::types(&table)?;
    if format < format::CURRENT {
        format::raise(&dir)?;
    }
    let wal = Wal::begin(&dir, checkpoint, sync.unwrap_or_else(|| Box::new(File::sync_data)))?;
    sync_path(&dir)?;
    tracing::info!(path = %path.display(), last_commit = meta.last_seq, types = types.len(), "store open");

    let history = History::new(options.history_events, options.history_bytes);
    let shared = Arc::new(Shared {
        table,
        publisher: Arc::new(Publisher::new(types, options.watch_buffer)),
        queue: Queue::new(options.commit_queue),
        poisoned: OnceLock::new(),
        snapshots: Arc::default(),
        long_scans: Arc::new(Semaphore::new(LONG_SCANS)),
        options,
        _lock: lock,
    });
    let checkpoints = Checkpoints::start(shared.clone(), data, &path)?;
    let committer = Committer::new(shared.clone(), meta, history, wal, checkpoints);
    let thread = thread::Builder::new()
        .name("store-commit".to_owned())
        .spawn(move || committer.run())
        .map_err(io_fault(&path, "start the commit thread of"))?;
    Ok(SledBackend { shared, thread: Mutex::new(Some(thread)) })
}

/// A directory of a store, kept from everybody else without the store being opened. Given back when dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "it is held, not looked at")] File);

impl Lock {
    /// Takes the directory, which is made when there is none.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when a store is open there; faults of the file system.
    pub fn take(path: &Path) -> Result<Self, StoreError> {
        make_dir(path)?;
        lock(path).map(Self)
    }
}

pub(crate) fn lock(path: &Path) -> Result<File, StoreError> {
    let file = path.join(LOCK);
    let lock =
        fs::OpenOptions::new().create(true).truncate(false).write(true).open(&file).map_err(io_fault(&file, "open"))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(StoreError::Io { path: file, action: "lock", source }),
    }
}

/// Removes what somebody did not finish, if there is any.
pub(crate) fn remove(unfinished: &Path) -> Result<(), StoreError> {
    if unfinished.exists() {
        fs::remove_dir_all(unfinished).map_err(io_fault(unfinished, "remove"))?;
    }
    Ok(())
}

/// Removes copies that checks left which somebody ended. Nobody works on one: we have the lock.
pub(crate) fn remove_copies(path: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(path).map_err(io_fault(path, "read"))? {
        let path = entry.map_err(io_fault(path, "read"))?.path();
        let is_copy = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(COPY.as_bytes()));
        if is_copy && path.is_dir() {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Makes the content of an empty store.
fn create(dir: &Path, options: &Options) -> Result<(), StoreError> {
    fs::create_dir(dir).map_err(io_fault(dir, "make"))?;
    let file = dir.join(DB);
    let table = Table::new(open_sled(dir, &file, options.cache_bytes)?, file);
    let mut batch = sled::Batch::default();
    batch.insert(keys::META, Meta::EMPTY.encode());
    table.write_through(batch)
}

/// Makes the closed store in `unfinished` durable, and then the store of `path`.
pub(crate) fn complete(path: &Path, unfinished: &Path) -> Result<(), StoreError> {
    let (file, dir) = (unfinished.join(format::FILE), path.join(STORE));
    fs::write(&file, format::text()).map_err(io_fault(&file, "write"))?;
    sync_tree(unfinished)?;
    fs::rename(unfinished, &dir).map_err(io_fault(&dir, "rename a new store to"))?;
    sync_path(path)
}

/// Bytes of the files in a directory.
pub(crate) fn size(dir: &Path) -> Result<u64, StoreError> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir).map_err(io_fault(dir, "read"))? {
        let path = entry.map_err(io_fault(dir, "read"))?.path();
        bytes += match path.is_dir() {
            true => size(&path)?,
            false => fs::metadata(&path).map_err(io_fault(&path, "look at"))?.len(),
        };
    }
    Ok(bytes)
}

fn sync_tree(dir: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(dir).map_err(io_fault(dir, "read"))? {
        let path = entry.map_err(io_fault(dir, "read"))?.path();
        if path.is_dir() {
            sync_tree(&path)?;
        } else {
            sync_path(&path)?;
        }
    }
    sync_path(dir)
}

pub(crate) fn sync_path(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(io_fault(path, "sync"))
}

/// Makes a directory and its parents, durably.
pub(crate) fn make_dir(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    make_dir(parent)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made.map_err(io_fault(path, "make"))?,
    }
    sync_path(parent)
}

/// Has the kernel forget what it holds of a file and has on the disk, so that what is read next comes from there. After a sync
/// that failed, the kernel takes for written what is not, and shows it to whoever reads; a store that was not closed may
/// have seen one.
fn read_anew(file: &Path) -> Result<(), StoreError> {
    let opened = File::open(file).map_err(io_fault(file, "open"))?;
    // Of what is still to be written it writes some, and forgets none.
    rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::DontNeed)
        .map_err(|error| io_fault(file, "give advice on")(error.into()))
}

/// A process that is killed while sled opens leaves `snap.….generating` behind, which sled would take for its newest
/// snapshot and call corrupt. A snapshot only saves sled time, and it removes the last one after a new one is complete.
pub(crate) fn remove_unfinished_snapshots(dir: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(dir).map_err(io_fault(dir, "read"))? {
        let path = entry.map_err(io_fault(dir, "read"))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(&path).map_err(io_fault(&path, "remove"))?;
        }
    }
    Ok(())
}

/// Opens sled with nobody else flushing.
///
/// Sled panics on some damaged files instead of returning an error. Unwinding is caught here, where it only drops what
/// sled had built so far, so that the user is told which file it is: `file`, by the name that the user knows.
pub(crate) fn open_sled(dir: &Path, file: &Path, cache_bytes: u64) -> Result<sled::Db, StoreError> {
    let config =
        sled::Config::new().path(dir).cache_capacity(cache_bytes).segment_size(SEGMENT_BYTES).flush_every_ms(None);
    // We have our own lock, so whoever holds sled's is a background thread of a database that this process just closed.
    let mut patience = 250;
    loop {
        match std::panic::catch_unwind(AssertUnwindSafe(|| config.open())) {
            Ok(Ok(db)) => return Ok(db),
            Ok(Err(sled::Error::Io(error))) if is_lock(&error) && patience > 0 => {
                patience -= 1;
                #[allow(clippy::disallowed_methods, reason = "opening blocks, and says so")]
                thread::sleep(Duration::from_millis(20));
            }
            Ok(Err(error)) => return Err(fault(file, "open", error)),
            Err(panic) => {
                let what = format!("sled cannot open it: {}", panic_text(panic.as_ref()));
                return Err(StoreError::Corrupt { path: file.to_owned(), what });
            }
        }
    }
}

fn is_lock(error: &io::Error) -> bool {
    error.to_string().contains("could not acquire lock")
}

/// Sled's file, to sync it.
pub(crate) fn data_file(path: &Path) -> Result<File, StoreError> {
    fs::OpenOptions::new().read(true).write(true).open(path).map_err(io_fault(path, "open"))
}

/// Copies to the tree what only the write-ahead log in `dir` has. `data` is the tree's file; `own` says that the log is the
/// tree's own, and not that of which the tree is a copy. Returns the checkpoint position after that.
///
/// # Errors
/// [`StoreError::Corrupt`] when something acknowledged is not in the log.
pub(crate) fn settle(dir: &Path, table: &Table, data: &File, own: bool) -> Result<CheckpointPosition, StoreError> {
    // What is seen of the tree, the checkpoint position not least, may not be on the disk yet.
    data.sync_data().map_err(|source| table.io("sync", source))?;
    let Some(checkpoint) = CheckpointPosition::read(table)? else {
        if wal::size_on_disk(dir) > 0 {
            return Err(table.damaged(keys::CHECKPOINT, "it is missing, and there is a write-ahead log"));
        }
        let checkpoint = CheckpointPosition::new();
        return checkpoint::copy(table, || data.sync_data(), std::iter::empty(), checkpoint).map(|()| checkpoint);
    };
    // What the counters say may be yet to come; those of a closed store are right.
    let last_seq = table.get(keys::META)?.and_then(|value| Meta::decode(&value)).map(|meta| meta.last_seq);
    let closed = last_seq.is_some_and(|last_seq| closed_at::is(dir, last_seq));
    if let Some(path) = wal::missing(dir, checkpoint, closed) {
        let what = "it is not there, and with it what only this file of the write-ahead log had".to_owned();
        return Err(StoreError::Corrupt { path, what });
    }
    let recovered = wal::recover(dir, checkpoint)?;
    if recovered.checkpoint != checkpoint {
        if own {
            recovered.secure()?;
        }
        tracing::info!(keys = recovered.states.len(), "the write-ahead log is being copied to the tree");
        checkpoint::copy(table, || data.sync_data(), recovered.states.into_iter(), recovered.checkpoint)?;
    }
    Ok(recovered.checkpoint)
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

pub(crate) fn io_fault(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path: PathBuf = path.to_owned();
    move |source| StoreError::Io { path, action, source }
}
