//! The write-ahead log: makes a group durable with one write and one sync.
//!
//! Two files, `wal.0` and `wal.1`, take turns. Each turn is a *generation*, numbered from 1; generation *g* is in the
//! file *g* mod 2. A generation ends when its memtable is frozen. Once the checkpoint has copied that to the tree, the
//! tree's *checkpoint position* says so, and the file may be overwritten from its beginning. Files are extended with
//! zeros ahead of the records: so a sync has no new length to write, which halves its time.
//!
//! A record is one group:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | generation, xor the store's salt |
//! | 8 | number of the record, from 0; generations go on with it |
//! | 8 | the binary logarithm of the block that the record fills up (1), length of the body (7) |
//! | 4 | CRC-32 of the store's salt, the 24 bytes above, and the body |
//! | … | the body: edits, one after another |
//! | … | zeros up to a multiple of the block |
//!
//! and an edit is `+`, length of the key (4), key, length of the value (4), value, or `-`, length of the key (4), key.
//! Numbers are big-endian. The block is the unit that the disk writes atomically ([`physical_block`]), so no write
//! changes a block of an acknowledged group. The salt is random and never leaves the store's files, so the author of a
//! resource cannot forge a record.
//!
//! Crates offer no such log: docs/decisions/0011-a-write-ahead-log-in-front-of-sled.md.
//!
//! # Reading at an opening
//! An opening reads the records of each generation after the checkpoint position, from the position's record number up
//! to the first missing record. A record that was being written at a loss of power was not acknowledged, and nothing
//! follows it; so a damaged record *followed* by another was acknowledged, and is damage ([`StoreError::Corrupt`]).
//! Only for the very last record the two cases look the same. A file with a generation later than the two after the
//! checkpoint position shows that the tree has lost its end. A missing file, or one in the place of the other, is
//! damage, too, and so is a log that ends before its durable end at the last checkpoint.

mod record;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use sled::IVec;

use crate::{
    StoreError,
    engine::{
        files::reserve::{self, is_full},
        tree::{
            checkpoint_position::{CheckpointPosition, LogEnd},
            memtable::State,
            write_batch::WriteBatch,
        },
    },
    error::io_fault,
};

use self::record::{DISK_BLOCK_BYTES, MIN_BLOCK_BYTES, edit, encode, generation, parse};

/// Files grow by as much as they hold, at least by this and at most by eight times this, bytes.
const GROWTH_BYTES: u64 = 1 << 20;
/// Largest buffer that is kept for the next group, bytes.
const KEPT_BUFFER_BYTES: usize = 1 << 20;
/// Names of the files in the store's directory.
pub(crate) const FILES: [&str; 2] = ["wal.0", "wal.1"];

/// Function that makes written bytes of a file durable.
pub(crate) type SyncDisk = Box<dyn FnMut(&File) -> io::Result<()> + Send>;

/// The write-ahead log, open at its end.
pub(crate) struct Wal {
    /// The file of the current generation, and the other one.
    current: LogFile,
    other: LogFile,
    salt: u64,
    generation: u64,
    /// Number of the next record.
    number: u64,
    /// Offset of the next record in the current file.
    position: u64,
    buffer: Vec<u8>,
    /// Multiple to which records are padded, bytes; a power of two.
    block: usize,
    /// Bytes to reserve ahead of the end of each file.
    ahead: u64,
    /// Whether they are reserved.
    reserved: bool,
    sync: SyncDisk,
}

struct LogFile {
    file: File,
    path: PathBuf,
    len: u64,
    /// Part of the length that is synced, as far as is known, bytes.
    durable_len: u64,
}

/// Content of the log after the checkpoint position.
#[derive(Debug)]
pub(crate) struct LogTail {
    /// Last state of each key.
    pub(crate) states: BTreeMap<IVec, State>,
    /// Checkpoint position once `states` are in the tree: the newest generation with a record, and the number after
    /// that record.
    pub(crate) checkpoint: CheckpointPosition,
    /// Files with these records, and the end of the records in them.
    held: Vec<(PathBuf, usize)>,
}

impl Wal {
    /// Begins the generation after the checkpoint position's, in the store's directory. The tree must have everything
    /// in the log. `ahead` bytes stay reserved ahead of the records, once [`Wal::reserve`] got them.
    pub(crate) fn begin(
        dir: &Path,
        checkpoint: CheckpointPosition,
        ahead: u64,
        sync: SyncDisk,
    ) -> Result<Self, StoreError> {
        let generation = checkpoint.generation + 1;
        Ok(Self {
            current: LogFile::open(dir, generation)?,
            other: LogFile::open(dir, generation + 1)?,
            salt: checkpoint.salt,
            generation,
            number: checkpoint.number,
            position: 0,
            buffer: Vec::new(),
            block: physical_block(dir),
            ahead,
            reserved: false,
            sync,
        })
    }

    /// Returns the checkpoint position for a tree that has everything so far.
    pub(crate) fn checkpoint(&self) -> CheckpointPosition {
        CheckpointPosition { generation: self.generation, number: self.number, salt: self.salt }
    }

    /// Returns the end of the appended records, which are durable.
    pub(crate) fn end(&self) -> LogEnd {
        let (current, other) = (self.current.durable_len, self.other.durable_len);
        let lengths = if self.generation.is_multiple_of(2) { [current, other] } else { [other, current] };
        LogEnd { number: self.number, lengths }
    }

    /// Returns the checkpoint position for a tree that has everything before this generation.
    pub(crate) fn settled(&self) -> CheckpointPosition {
        CheckpointPosition { generation: self.generation - 1, ..self.checkpoint() }
    }

    /// Returns the bytes to reserve ahead of the end of each file.
    pub(crate) fn ahead(&self) -> u64 {
        self.ahead
    }

    /// Whether the space is reserved, as far as is known.
    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved
    }

    /// Returns the bytes of the current generation.
    pub(crate) fn len(&self) -> u64 {
        self.position
    }

    /// Reserves disk space ahead of the records, in both files; does nothing if it is reserved already.
    ///
    /// # Errors
    /// [`StoreError::Full`] when the disk has no space for it.
    pub(crate) fn reserve(&mut self) -> Result<(), StoreError> {
        if !self.reserved {
            for (log, position) in [(&self.current, self.position), (&self.other, 0)] {
                let ahead = self.ahead.saturating_sub(log.len.saturating_sub(position));
                reserve::take(&log.file, &log.path, ahead)?;
            }
            self.reserved = true;
        }
        Ok(())
    }

    /// Appends a group and makes it durable. After an error other than the one below, the content of the disk is
    /// unknown.
    ///
    /// # Errors
    /// [`StoreError::Full`] when the disk has no space for it: then nothing was written.
    pub(crate) fn append(&mut self, batch: &WriteBatch) -> Result<(), StoreError> {
        let mut record = std::mem::take(&mut self.buffer);
        record.clear();
        encode(&mut record, self.salt, self.block, (self.generation, self.number), batch);
        let end = self.position + record.len() as u64;
        if end > self.current.len {
            self.reserved = false;
            self.current.extend(end)?;
        }
        let LogFile { file, path, .. } = &self.current;
        let written = file.write_all_at(&record, self.position).map_err(io_fault(path, "write"));
        let result = written.and_then(|()| (self.sync)(file).map_err(io_fault(path, "sync")));
        self.current.durable_len = self.current.len;
        self.position = end;
        self.number += 1;
        if record.capacity() <= KEPT_BUFFER_BYTES {
            self.buffer = record;
        }
        result
    }

    /// Begins the next generation, in the other file. The tree must have the generation before this one.
    pub(crate) fn rotate(&mut self) {
        std::mem::swap(&mut self.current, &mut self.other);
        (self.generation, self.position) = (self.generation + 1, 0);
    }

    /// Frees the disk space. The tree must have everything.
    pub(crate) fn empty(&mut self) -> Result<(), StoreError> {
        for log in [&mut self.current, &mut self.other] {
            log.file.set_len(0).map_err(io_fault(&log.path, "truncate"))?;
            (log.len, log.durable_len) = (0, 0);
        }
        (self.position, self.reserved) = (0, false);
        Ok(())
    }
}

impl LogFile {
    fn open(dir: &Path, generation: u64) -> Result<Self, StoreError> {
        let path = path(dir, generation);
        let mut options = fs::OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(io_fault(&path, "open"))?;
        let len = file.metadata().map_err(io_fault(&path, "read metadata"))?.len();
        Ok(Self { file, path, len, durable_len: 0 })
    }

    /// Extends the file with zeros to `end`, and further if there is space.
    fn extend(&mut self, end: u64) -> Result<(), StoreError> {
        let more = self.len.clamp(GROWTH_BYTES, GROWTH_BYTES * 8);
        let grown = (self.len + more).max(end).next_multiple_of(GROWTH_BYTES);
        let zeros = vec![0; GROWTH_BYTES as usize];
        while self.len < grown {
            let left = usize::try_from(grown - self.len).unwrap_or(usize::MAX);
            match self.file.write_at(zeros.get(..left).unwrap_or(&zeros), self.len) {
                Ok(written) if written > 0 => self.len += written as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The present length is enough.
                Err(error) if is_full(&error) && self.len >= end => break,
                Err(error) if is_full(&error) => {
                    let missing = reserve::missing(&self.file, end - self.len);
                    return Err(StoreError::Full { path: self.path.clone(), missing });
                }
                Err(source) => return Err(io_fault(&self.path, "extend")(source)),
                Ok(_) => return Err(io_fault(&self.path, "extend")(io::ErrorKind::WriteZero.into())),
            }
        }
        Ok(())
    }
}

/// Returns the unit in which the disk under `dir` writes, bytes; the kernel's page if unknown (for a file system over
/// several disks, or in memory).
fn physical_block(dir: &Path) -> usize {
    let device = fs::metadata(dir).map_or(0, |found| found.dev());
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // For a partition, the value is in the directory of its disk.
    let found = ["queue", "../queue"].iter().find_map(|queue| {
        fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{queue}/physical_block_size")).ok()
    });
    let block = found.and_then(|text| text.trim().parse::<u64>().ok()).filter(|block| block.is_power_of_two());
    block.unwrap_or(0).clamp(*DISK_BLOCK_BYTES.start(), *DISK_BLOCK_BYTES.end()) as usize
}

fn path(dir: &Path, generation: u64) -> PathBuf {
    let [even, odd] = FILES;
    dir.join(if generation.is_multiple_of(2) { even } else { odd })
}

/// Returns the bytes of the log on the disk.
pub(crate) fn size_on_disk(dir: &Path) -> u64 {
    FILES.iter().filter_map(|name| fs::metadata(dir.join(name)).ok()).map(|found| found.len()).sum()
}

/// Whether there is a log, even an empty one. A store that was made and never opened has none.
pub(crate) fn is_there(dir: &Path) -> bool {
    FILES.iter().any(|name| dir.join(name).exists())
}

/// Returns a missing file of the log, if any: both are made before either is written to. A cleanly closed store needs
/// neither.
pub(crate) fn missing(dir: &Path, checkpoint: CheckpointPosition, closed: bool) -> Option<PathBuf> {
    let gone: Vec<PathBuf> = FILES.iter().map(|name| dir.join(name)).filter(|path| !path.exists()).collect();
    let begun = checkpoint.generation > 0 || size_on_disk(dir) > 0;
    let needed = begun && !(closed && gone.len() == FILES.len());
    gone.into_iter().next().filter(|_| needed)
}

/// Reads what the log of the store in `dir` has beyond the checkpoint position. `durable` is how far it reached when
/// that was written.
///
/// # Errors
/// [`StoreError::Corrupt`] when acknowledged records are missing.
pub(crate) fn recover(dir: &Path, checkpoint: CheckpointPosition, durable: LogEnd) -> Result<LogTail, StoreError> {
    let mut recovered = LogTail { states: BTreeMap::new(), checkpoint, held: Vec::new() };
    read(dir, checkpoint, durable, &mut recovered)?;
    Ok(recovered)
}

/// Returns the states from the records before the damage in a log that [`recover`] rejects.
pub(crate) fn readable(dir: &Path, checkpoint: CheckpointPosition, durable: LogEnd) -> BTreeMap<IVec, State> {
    let mut recovered = LogTail { states: BTreeMap::new(), checkpoint, held: Vec::new() };
    // The caller has reported the damage.
    read(dir, checkpoint, durable, &mut recovered).ok();
    recovered.states
}

/// Reads record after record into `recovered`, each whole.
fn read(
    dir: &Path,
    checkpoint: CheckpointPosition,
    durable: LogEnd,
    recovered: &mut LogTail,
) -> Result<(), StoreError> {
    let mut foreign = None;
    // At most two generations can be missing in the tree.
    for generation in [checkpoint.generation + 1, checkpoint.generation + 2] {
        let path = path(dir, generation);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(io_fault(&path, "read")(source)),
        };
        let corrupt = |what: String| StoreError::Corrupt { path: path.clone(), what };
        let found =
            self::generation(checkpoint.salt, &bytes).filter(|found| parse(checkpoint.salt, *found, &bytes).is_some());
        if let Some(found) = found.filter(|found| found % 2 != generation % 2) {
            return Err(corrupt(format!("it is of generation {found}, which belongs in the other file of the log")));
        }
        if let Some(found) = found.filter(|found| *found > checkpoint.generation + 2) {
            let has = checkpoint.generation;
            return Err(corrupt(format!(
                "it is of generation {found}, but the tree beside it has only generation {has}: the end of the tree's file is lost"
            )));
        }
        let damaged = |offset: usize, number: u64, what: &str| {
            corrupt(format!("record {number} of the write-ahead log, at or before byte {offset}, {what}"))
        };
        let record_at = |offset: usize| parse(checkpoint.salt, generation, bytes.get(offset..)?);
        let (mut offset, mut number) = (0, recovered.checkpoint.number);
        while let Some(found) = record_at(offset).filter(|found| found.number == number) {
            let (mut body, mut edits) = (found.body, Vec::new());
            while !body.is_empty() {
                edits.push(edit(&mut body).ok_or_else(|| damaged(offset, number, "is not a list of edits"))?);
            }
            recovered.states.extend(edits);
            offset += found.size;
            number += 1;
            recovered.checkpoint = CheckpointPosition { generation, number, salt: checkpoint.salt };
        }
        // The rest of the file is from an earlier turn, or zeros.
        if let Some(later) = (offset..bytes.len()).step_by(MIN_BLOCK_BYTES).find(|later| record_at(*later).is_some()) {
            return Err(damaged(later, number, "is damaged, and others follow it"));
        }
        let [even, odd] = durable.lengths;
        let length = if generation.is_multiple_of(2) { even } else { odd };
        if (bytes.len() as u64) < length {
            let len = bytes.len();
            return Err(corrupt(format!(
                "it has {len} bytes, but had {length} bytes at the last checkpoint: it was cut off"
            )));
        }
        // A file of this store begins with a record of one of its turns, or with zeros: a disk writes a block whole.
        let begins = self::generation(checkpoint.salt, &bytes).filter(|_| bytes.iter().take(8).any(|byte| *byte != 0));
        if offset == 0 && begins.is_some_and(|begins| begins > checkpoint.generation + 2) {
            foreign.get_or_insert(path.clone());
        }
        if offset > 0 {
            recovered.held.push((path, offset.min(bytes.len())));
        }
    }
    if recovered.checkpoint.number < durable.number {
        let (found, number) = (recovered.checkpoint.number, durable.number);
        let what = format!(
            "it ends before record {found}, but had the records before {number} at the last checkpoint: it was cut, or is an old copy"
        );
        return Err(StoreError::Corrupt { path: path(dir, checkpoint.generation + 1), what });
    }
    if let Some(path) = foreign {
        let what = "it belongs to the tree of another store, or its first record is damaged".to_owned();
        return Err(StoreError::Corrupt { path, what });
    }
    Ok(())
}

impl LogTail {
    /// Makes the found records durable. The last one may have been written and never synced; if the power fails while a
    /// part of it is copied to the tree, the rest must still be in the log. Writes them again, since after a failed
    /// sync the kernel may take them for synced.
    pub(crate) fn secure(&self) -> Result<(), StoreError> {
        for (path, len) in &self.held {
            let rewrite = || {
                let mut file = fs::OpenOptions::new().read(true).write(true).open(path)?;
                let mut bytes = vec![0; *len];
                file.read_exact(&mut bytes)?;
                file.rewind()?;
                file.write_all(&bytes)?;
                file.sync_data()
            };
            rewrite().map_err(io_fault(path, "rewrite"))?;
        }
        Ok(())
    }
}

/// Reads bytes as a record under the salt that they begin with, and as the edits of one.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    if let Some((salt, rest)) = bytes.split_first_chunk::<8>() {
        let salt = u64::from_be_bytes(*salt);
        let generation_found = generation(salt, rest).unwrap_or_default();
        let _ = parse(salt, generation_found, rest).map(|found| (found.number, found.size, found.body.len()));
    }
    let mut body = bytes;
    while edit(&mut body).is_some() {}
}

#[cfg(test)]
mod tests;
