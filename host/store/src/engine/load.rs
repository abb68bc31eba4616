//! Making a store of a snapshot's records.
//!
//! The store is made in `store.new`, as any new store, and is renamed once everything is in it, was compared with the
//! snapshot's head, and is durable. Versions continue from the snapshot's commit.

use std::{
    collections::HashSet,
    fs::{self, File},
    path::{Path, PathBuf},
};

use mortise_resource::EncodedResource;

use super::{
    comparison::{Comparison, KeyedRecord},
    files::{
        closed_at,
        layout::{self, UNFINISHED},
        store_id::StoreId,
    },
    open,
    tree::{
        check, keys,
        record::{self, Kind, Meta},
        sled_file,
        sums::Sums,
        table::Table,
        write_batch::WriteBatch,
    },
};
use crate::{Record, RecordKind, SnapshotHead, StoreError, error::io_fault, set_hash::Step};

/// Bytes of a batch: larger batches are faster, and are held in memory.
const BATCH_BYTES: usize = 1 << 20;
/// Memory for sled's cache, bytes.
const CACHE_BYTES: u64 = 64 << 20;

/// An unfinished store.
pub struct Loader {
    path: PathBuf,
    comparison: Comparison,
    table: Table,
    batch: WriteBatch,
    batch_bytes: usize,
    /// Keys of the records in the batch.
    batch_keys: HashSet<Vec<u8>>,
    sums: Sums,
    id: StoreId,
    /// Lock against other processes.
    _lock: File,
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Loader {
    /// Starts a store in `path`, which must not hold one.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::Locked`], and faults of the file system.
    pub fn create(path: &Path, head: SnapshotHead) -> Result<Self, StoreError> {
        mortise_durable_fs::make_dir(path)?;
        let lock = layout::lock(path)?;
        if layout::store_dir(path).is_some() {
            return Err(StoreError::Exists { path: path.to_owned() });
        }
        let unfinished = path.join(UNFINISHED);
        mortise_durable_fs::remove(&unfinished)?;
        fs::create_dir(&unfinished).map_err(io_fault(&unfinished, "make"))?;
        let file = unfinished.join(layout::DB);
        let table = Table::new(sled_file::open_sled(&unfinished, &file, CACHE_BYTES)?, file);
        Ok(Self {
            path: path.to_owned(),
            comparison: Comparison::new(head),
            table,
            batch: WriteBatch::default(),
            batch_bytes: 0,
            batch_keys: HashSet::new(),
            sums: Sums::default(),
            id: StoreId::generate(),
            _lock: lock,
        })
    }

    /// Sets the store's id instead of a new one.
    #[must_use]
    pub fn with_id(self, id: StoreId) -> Self {
        Self { id, ..self }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`StoreError::BadRecord`], also for a record that was added already; faults of the file system.
    pub fn add(&mut self, record: &Record) -> Result<(), StoreError> {
        let KeyedRecord { key, resource, .. } = self.comparison.add_keyed(record)?;
        if self.batch_keys.contains(&key) || self.table.get(&key)?.is_some() {
            return Err(StoreError::BadRecord { record: keys::describe(&key), fault: "it comes twice".to_owned() });
        }
        let kind = match record.kind {
            RecordKind::Resource => Kind::Resource,
            RecordKind::Upsert => Kind::Upsert,
            RecordKind::Delete => Kind::Delete,
        };
        record::write(&mut self.batch, &key, kind, record.sequence, &record.payload);
        if kind == Kind::Resource {
            for entry in record::index_entries(&EncodedResource::encode(&resource)?, &key)? {
                self.sums.step(Step::Add, &entry, 0);
                self.batch.insert(entry, &[]);
            }
            self.sums.step(Step::Add, &key, record.sequence);
            self.sums.usage.add_read(&key, u32::try_from(record.payload.len()).unwrap_or(u32::MAX));
        }
        self.batch_bytes += key.len() + record.payload.len();
        self.batch_keys.insert(key);
        if self.batch_bytes >= BATCH_BYTES { self.write() } else { Ok(()) }
    }

    /// Writes the batch, with a flush, as sled needs after each batch.
    fn write(&mut self) -> Result<(), StoreError> {
        self.batch_keys.clear();
        self.batch_bytes = 0;
        self.table.write_through(std::mem::take(&mut self.batch).into_sled())
    }

    /// Checks everything, makes it durable, and puts it in its place.
    ///
    /// # Errors
    /// [`StoreError::BadRecord`] when records are missing or contradict each other; faults of the file system.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.comparison.finish()?;
        let SnapshotHead { sequence, first_event, event_bytes, skipped, .. } = *self.comparison.head();
        let (sums, usage) = (self.sums.totals(), self.sums.usage.bytes());
        let meta = Meta { last_seq: sequence, first_event, event_bytes, skipped, highest: sequence, sums, usage };
        self.sums.write(self.sums.types(), &mut self.batch);
        self.sums.usage.write_all(&self.table, &mut self.batch)?;
        self.batch.insert(keys::META, meta.encode());
        self.batch.insert(keys::STORE_ID, self.id.encode());
        self.write()?;
        let Self { path, table, id, _lock: lock, .. } = self;
        let unfinished = path.join(UNFINISHED);
        if let Some(problem) = check::walk(&table, &unfinished.join("blobs"), meta)?.into_iter().next() {
            return Err(StoreError::BadRecord { record: problem.thing, fault: problem.fault });
        }
        drop(table);
        closed_at::set(&unfinished, sequence)?;
        open::seal(&unfinished, id)?;
        open::complete(&path, &unfinished)?;
        drop(lock);
        Ok(())
    }
}
