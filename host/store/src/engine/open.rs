//! Opening and making a store.
//!
//! ```text
//! <path>/lock            locked while the store is open
//! <path>/store/format    the format number
//! <path>/store/id        the store's id, as in its tree
//! <path>/store/closed-at the commit with which it was closed last; opened-at while it is in use
//! <path>/store/wal.{0,1} the write-ahead log
//! <path>/store/spare     takes room, which the next opening may need
//! <path>/store/{db,conf,blobs/,snap.*}   sled's
//! <path>/store.new/      a store in the making; removed when found
//! <path>/check-…/        a copy that a check works on; removed when found
//! ```
//!
//! Sled never syncs its `conf` file nor its directory, so a store is made in `store.new`: every file and directory is
//! synced, then the directory is renamed and the parent synced. So a store exists whole or not at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{Arc, OnceLock},
    thread::{self, JoinHandle},
};

use mortise_durable_fs::{make_dir, remove, sync, sync_tree};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    commit::{
        checkpoint_thread::Checkpoints, commit_thread::Committer, history, history::History, queue::Queue,
        room::DiskBudget, scrub, shared::Shared,
    },
    files::{
        closed_at, format,
        layout::{DB, LOCK, STORE, UNFINISHED, lock, remove_copies, settle_former, store_dir},
        open_files::OpenFiles,
        recovery::{copy_states, meta, replay_log},
        reserve::{self, Reserve, keep_spare},
        store_id::{self, StoreId},
        wal::{self, SyncDisk, Wal},
    },
    options::Options,
    planted,
    read::{hub::HubLimits, published_head::PublishedHead, publisher::Publisher, scan::Scanner},
    tree::{
        check, keys,
        record::Meta,
        sled_file::{data_file, drop_cached_pages, open_sled, remove_unfinished_snapshots},
        sums::Sums,
        table::Table,
    },
};
use crate::{Health, StoreError, check::Problem, error::io_fault};

/// Size of a file, bytes, up to which a store is compared at each opening, which takes some tens of milliseconds.
const SMALL_STORE_BYTES: u64 = 16 << 20;
/// Divisor of the tree's reserve, for the reserve of each file of the log.
const LOG_RESERVE_DIVISOR: u64 = 4;
/// Number of sequences that an opening skips after an unclean close: the end of the log may be lost, with acknowledged
/// commits, whose versions must not be given again. The log holds two generations of some 150 MB at most, and a change
/// takes 150 bytes of it at least.
pub(crate) const SKIPPED_SEQUENCES: u64 = 1 << 22;

/// Opens or makes a store. Returns the shared state and the threads, the commit thread first. `sync_disk` replaces the
/// sync of the disk. A new store gets the id `new_id`, or one of its own.
pub(crate) fn open(
    options: Options,
    sync_disk: Option<SyncDisk>,
    new_id: Option<StoreId>,
) -> Result<(Arc<Shared>, Vec<JoinHandle<()>>), StoreError> {
    let options = options.in_range();
    let path = options.path.clone();
    let dir = path.join(STORE);
    // A copy of another store may be made even so.
    if options.read_only && new_id.is_none() && store_dir(&path).is_none() {
        return Err(StoreError::Absent { path });
    }
    make_dir(&path)?;
    let lock = lock(&path)?;
    let unfinished = path.join(UNFINISHED);
    // A killed process may have made the store without making its name durable, which a write requires.
    sync(&path)?;
    settle_former(&path)?;
    // A leftover of a killed process; the lock is ours.
    remove(&unfinished)?;
    remove_copies(&path)?;
    if !dir.exists() {
        create(&unfinished, &options, new_id.unwrap_or_else(StoreId::generate))?;
        complete(&path, &unfinished)?;
    }
    let format = format::check(&path, &dir)?;
    remove_unfinished_snapshots(&dir)?;

    let file = dir.join(DB);
    let (log, used) = (wal::size_on_disk(&dir), wal::is_there(&dir));
    if log > 0 {
        drop_cached_pages(&file)?;
    }
    let db = match open_sled(&dir, &file, options.cache_bytes) {
        // Sled writes a table of its pages when it opens.
        Err(StoreError::Io { source, .. }) if reserve::is_full(&source) => {
            reserve::use_spare(&dir)?;
            remove_unfinished_snapshots(&dir)?;
            open_sled(&dir, &file, options.cache_bytes)?
        }
        opened => opened?,
    };
    let table = Table::new(db, file.clone());
    let known = store_id::check(&table, &dir)?;
    // The first opening writes the checkpoint mark before it makes the log.
    let used = used || table.get(keys::CHECKPOINT)?.is_some();
    // For sled, which has renamed a snapshot into place.
    sync(&dir)?;
    let data = data_file(&file)?;
    let room = DiskBudget::new(Reserve::of(&file)?, options.reserve_bytes);
    let (checkpoint, mut settled) = replay_log(&dir, &table, &data, || room.ensure_batch(), true)?;
    let mut meta = meta(&table)?;
    if let Some(what) = closed_at::check(&dir, meta.last_seq)? {
        return Err(StoreError::Corrupt { path: file, what });
    }
    let unclean = log > 0 || !closed_at::is(&dir, meta.last_seq);
    let small = fs::metadata(&file).is_ok_and(|found| found.len() <= SMALL_STORE_BYTES);
    let sums = Sums::read(&table, &meta)?;
    let compare = unclean || small || options.compare_at_start;
    let problems = if compare { compare_content(&table, &dir, meta, &sums) } else { Vec::new() };
    let mut states = BTreeMap::new();
    if unclean && (used || meta.last_seq > 0) {
        meta.highest = planted::highest(meta.highest + SKIPPED_SEQUENCES);
        states.insert(keys::META.into(), Some(meta.encode().into()));
    }
    let id = known.unwrap_or_else(StoreId::generate);
    if known.is_none() {
        states.insert(keys::STORE_ID.into(), Some(id.encode().into()));
    }
    if !states.is_empty() {
        settled &= copy_states(&table, &data, || room.ensure_batch(), states, checkpoint)?;
    }
    // Not before the tree has it; else a later opening writes it.
    if settled
        && !store_id::has_file(&dir)
        && let Err(error) = store_id::set(&dir, id)
    {
        tracing::warn!(%error, "the id of the store was not noted beside its tree; the next start does it");
    }
    let mut older = (format < format::CURRENT).then(|| dir.clone());
    if settled && let Some(dir) = older.take() {
        format::raise(&dir)?;
    }
    let types: BTreeSet<_> = sums.types().cloned().collect();
    let sync_time = options.sync_time;
    let sync_disk = sync_disk.unwrap_or_else(|| {
        #[allow(clippy::disallowed_methods, reason = "the commit thread is a plain one, and waits as for a slow disk")]
        Box::new(move |file| {
            thread::sleep(sync_time);
            file.sync_data()
        })
    });
    let wal = Wal::begin(&dir, checkpoint, options.reserve_bytes / LOG_RESERVE_DIVISOR, sync_disk)?;
    if let Err(error) = room.take().and_then(|()| keep_spare(&dir, spare_bytes(&file))) {
        // The first write that needs space is refused, with the reason.
        tracing::warn!(%error, "no disk space is reserved for the next start");
    }
    // The log must be durable before the store counts as having one.
    sync(&dir)?;
    closed_at::set_in_use(&dir)?;
    let files =
        OpenFiles::of([path.join(LOCK), file.clone()].into_iter().chain(wal::FILES.map(|name| dir.join(name))))?;
    tracing::info!(%id, path = %path.display(), last_commit = meta.last_seq, types = types.len(), "store open");

    let history = History::new(options.history_events, options.history_bytes);
    let waiting = HubLimits { events: options.watch_buffer, bytes: options.watch_buffer_bytes };
    let publisher = Arc::new(Publisher::new(types, newest(&table, meta), waiting, options.watch_bytes));
    let shared = Arc::new(Shared {
        scanner: Arc::new(Scanner::new(table.clone(), publisher.clone())),
        table,
        publisher,
        queue: Queue::new(options.commit_queue),
        poisoned: OnceLock::new(),
        health: watch::Sender::new(Health::default()),
        room,
        log_end: Mutex::new(wal.end()),
        snapshots: Arc::default(),
        options,
        id,
        files,
        _lock: lock,
    });
    shared.note_damage(&problems);
    let checkpoints = Checkpoints::start(shared.clone(), data, &path)?;
    let committer = Committer::new(shared.clone(), (meta, sums), history, wal, checkpoints, (settled, older));
    let thread = thread::Builder::new()
        .name("store-commit".to_owned())
        .spawn({
            let shared = shared.clone();
            move || {
                shared.guard("commit", || committer.run());
                // Callers that would wait for a thread that panicked find the queue closed.
                shared.queue.close();
                while shared.queue.take(1).is_some() {}
                shared.room.close();
            }
        })
        .map_err(io_fault(&path, "start the commit thread of"))?;
    let scrub = scrub::start(&shared, shared.options.scrub_per_second)?;
    Ok((shared, vec![thread, scrub]))
}

/// Returns the last event. Ignores faults; a reader of the event finds them.
fn newest(table: &Table, meta: Meta) -> PublishedHead {
    let sequence = meta.last_seq;
    let key = keys::event(sequence);
    let carried = table.load(&key).ok().flatten().map(|event| event.resource);
    PublishedHead { sequence, carried }
}

/// Compares the content with the sums and counters, the history included. Where they differ, walks the whole store
/// to name the records.
pub(crate) fn compare_content(table: &Table, dir: &Path, meta: Meta, sums: &Sums) -> Vec<Problem> {
    let unreadable = |error: StoreError| vec![Problem { thing: "the comparison".to_owned(), fault: error.to_string() }];
    let events = (meta.event_count(), meta.event_bytes);
    let agrees = Sums::count(table).and_then(|found| Ok(found == *sums && history::count(table)? == events));
    match agrees {
        Ok(true) => Vec::new(),
        Ok(false) => check::walk(table, &dir.join("blobs"), meta).unwrap_or_else(unreadable),
        Err(error) => unreadable(error),
    }
}

/// Returns the largest size of sled's table of pages, bytes, for a tree of this file: a page takes about a kilobyte,
/// and an entry some twenty bytes.
fn spare_bytes(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |found| found.len() / 32) + (1 << 20)
}

/// Makes the content of an empty store.
fn create(dir: &Path, options: &Options, id: StoreId) -> Result<(), StoreError> {
    fs::create_dir(dir).map_err(io_fault(dir, "make"))?;
    let file = dir.join(DB);
    let table = Table::new(open_sled(dir, &file, options.cache_bytes)?, file);
    let mut batch = sled::Batch::default();
    batch.insert(keys::META, Meta::empty().encode());
    batch.insert(keys::STORE_ID, id.encode());
    table.write_through(batch)?;
    drop(table);
    seal(dir, id)
}

/// Writes the small files of the closed store in `unfinished`, and makes all of it durable.
pub(crate) fn seal(unfinished: &Path, id: StoreId) -> Result<(), StoreError> {
    for (name, text) in [(store_id::FILE, id.text()), (format::FILE, format::text())] {
        let file = unfinished.join(name);
        fs::write(&file, text).map_err(io_fault(&file, "write"))?;
    }
    Ok(sync_tree(unfinished)?)
}

/// Renames the closed, durable store in `unfinished` to the store of `path`.
pub(crate) fn complete(path: &Path, unfinished: &Path) -> Result<(), StoreError> {
    let dir = path.join(STORE);
    fs::rename(unfinished, &dir).map_err(io_fault(&dir, "rename a new store to"))?;
    Ok(sync(path)?)
}
