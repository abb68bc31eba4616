//! Making a store of the records of a snapshot.
//!
//! It is made as any store is, in `store.new`, and is there once everything is in it, was compared with what the
//! snapshot promised, and is durable. Versions go on from the snapshot's commit.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    path::{Path, PathBuf},
};

use mortise_resource::pb;
use prost::Message as _;

use super::{
    commit::commit_group,
    files::layout::{self, STORE, UNFINISHED},
    open,
    tree::{
        check, keys,
        record::{self, Kind, Meta},
        sled_file,
        sums::{Step, Sums},
        table::Table,
        write_batch::WriteBatch,
    },
};
use crate::{Record, RecordKind, SnapshotHead, StoreError, TypeKey, error::io_fault};

/// Bytes that are written at a time: more per flush is faster, and this much is held in memory.
const BATCH_BYTES: usize = 1 << 20;
/// What sled may keep in memory meanwhile.
const CACHE_BYTES: u64 = 64 << 20;

/// A store in the making.
pub struct Loader {
    path: PathBuf,
    head: SnapshotHead,
    table: Table,
    batch: WriteBatch,
    batch_bytes: usize,
    /// Keys of records in the batch.
    batch_keys: HashSet<Vec<u8>>,
    sums: Sums,
    resources: BTreeMap<TypeKey, u64>,
    events: u64,
    event_bytes: u64,
    /// Keeps other processes out.
    _lock: File,
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Judges a record by itself: whether it is one that a snapshot of this head can have. Returns its type.
///
/// # Errors
/// [`StoreError::BadRecord`].
pub fn judge(head: &SnapshotHead, record: &Record) -> Result<TypeKey, StoreError> {
    place(head, record).map(|(_, _, type_key)| type_key)
}

/// The key of a record, its resource, and the type of that.
fn place(head: &SnapshotHead, record: &Record) -> Result<(Vec<u8>, pb::Resource, TypeKey), StoreError> {
    let name = || match record.kind {
        RecordKind::Resource => format!("the resource of commit {}", record.sequence),
        RecordKind::Upsert | RecordKind::Delete => format!("event {}", record.sequence),
    };
    let bad = |fault: String| StoreError::BadRecord { record: name(), fault };
    let resource =
        pb::Resource::decode(record.payload.as_slice()).map_err(|e| bad(format!("it does not decode: {e}")))?;
    let (key, type_key) = commit_group::complete(&resource).map_err(|e| bad(e.to_string()))?;
    let version = resource.version.parse::<u64>().ok();
    let good = match record.kind {
        RecordKind::Resource | RecordKind::Upsert => version == Some(record.sequence),
        RecordKind::Delete => version.is_some_and(|version| version < record.sequence),
    };
    if !good {
        return Err(bad(format!("its version is {:?}", resource.version)));
    }
    let first = if record.kind == RecordKind::Resource { 1 } else { head.first_event };
    if !(first..=head.sequence).contains(&record.sequence) {
        return Err(bad(format!("it is outside of {first} to {}", head.sequence)));
    }
    let key = if record.kind == RecordKind::Resource { key } else { keys::event(record.sequence) };
    Ok((key, resource, type_key))
}

impl Loader {
    /// Begins to make a store in `path`, which must not hold one.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::Locked`], and faults of the file system.
    pub fn create(path: &Path, head: SnapshotHead) -> Result<Self, StoreError> {
        mortise_durable_fs::make_dir(path)?;
        let lock = layout::lock(path)?;
        if path.join(STORE).exists() {
            return Err(StoreError::Exists { path: path.to_owned() });
        }
        let unfinished = path.join(UNFINISHED);
        mortise_durable_fs::remove(&unfinished)?;
        fs::create_dir(&unfinished).map_err(io_fault(&unfinished, "make"))?;
        let file = unfinished.join(layout::DB);
        let table = Table::new(sled_file::open_sled(&unfinished, &file, CACHE_BYTES)?, file);
        Ok(Self {
            path: path.to_owned(),
            head,
            table,
            batch: WriteBatch::default(),
            batch_bytes: 0,
            batch_keys: HashSet::new(),
            sums: Sums::default(),
            resources: BTreeMap::new(),
            events: 0,
            event_bytes: 0,
            _lock: lock,
        })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// [`StoreError::BadRecord`], also for one that was added already; faults of the file system.
    pub fn add(&mut self, record: &Record) -> Result<(), StoreError> {
        let (key, resource, type_key) = place(&self.head, record)?;
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
            if let Some(owner) = &resource.owner {
                let entry = keys::ownership(owner, &key).map_err(StoreError::IncompleteId)?;
                self.sums.step(Step::Add, &entry, 0);
                self.batch.insert(entry, &[]);
            }
            self.sums.step(Step::Add, &key, record.sequence);
            *self.resources.entry(type_key).or_default() += 1;
        } else {
            self.events += 1;
            self.event_bytes += record.payload.len() as u64;
        }
        self.batch_bytes += key.len() + record.payload.len();
        self.batch_keys.insert(key);
        if self.batch_bytes >= BATCH_BYTES { self.write() } else { Ok(()) }
    }

    /// Writes what was added. A flush after each batch, as sled needs it.
    fn write(&mut self) -> Result<(), StoreError> {
        self.batch_keys.clear();
        self.batch_bytes = 0;
        self.table.write_through(std::mem::take(&mut self.batch).into_sled())
    }

    /// Compares everything, makes it durable, and puts it in its place.
    ///
    /// # Errors
    /// [`StoreError::BadRecord`] when records are missing or do not agree; faults of the file system.
    pub fn finish(mut self) -> Result<(), StoreError> {
        let bad = |fault: String| StoreError::BadRecord { record: "the snapshot".to_owned(), fault };
        let (events, bytes) = (self.head.events(), self.head.event_bytes);
        if self.resources != self.head.resources {
            return Err(bad("it has other resources than it says".to_owned()));
        }
        if (self.events, self.event_bytes) != (events, bytes) {
            return Err(bad(format!(
                "it says {events} events of {bytes} bytes, and has {} of {}",
                self.events, self.event_bytes
            )));
        }
        let meta = Meta {
            last_seq: self.head.sequence,
            first_event: self.head.first_event,
            event_bytes: self.head.event_bytes,
            sums: Some(self.sums.totals()),
        };
        self.sums.write(self.sums.types(), &mut self.batch);
        self.batch.insert(keys::META, meta.encode());
        self.write()?;
        let Self { path, table, _lock: lock, .. } = self;
        let unfinished = path.join(UNFINISHED);
        if let Some(problem) = check::walk(&table, &unfinished.join("blobs"), meta)?.into_iter().next() {
            return Err(StoreError::BadRecord { record: problem.thing, fault: problem.fault });
        }
        drop(table);
        open::complete(&path, &unfinished)?;
        drop(lock);
        Ok(())
    }
}
