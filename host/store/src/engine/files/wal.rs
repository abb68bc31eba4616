//! The write-ahead log: where a group becomes durable, with one write and one sync.
//!
//! Two files, `wal.0` and `wal.1`, take turns. Each turn is a *generation*, numbered from 1; generation *g* stands in
//! the file *g* mod 2. A generation ends when its memtable is frozen, and once the checkpoint has copied that to the
//! tree, the tree's *checkpoint position* says so, and the file may be written again from its beginning, over what it
//! held. Files are extended with zeros ahead of what is written: a sync then has no new length to bring to the disk,
//! which halves what it takes.
//!
//! A record is one group:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | generation, xor the store's salt |
//! | 8 | number of the record, from 0; generations go on with it |
//! | 8 | the binary logarithm of the block that the record fills up (1; 0 before format 3, when it was 512), length of the body (7) |
//! | 4 | CRC-32 of the store's salt, the 24 bytes above, and the body |
//! | … | the body: edits, one after another |
//! | … | zeros up to a multiple of the block |
//!
//! and an edit is `+`, length of the key (4), key, length of the value (4), value, or `-`, length of the key (4), key.
//! Numbers are big-endian. The block is what the disk writes whole ([`physical_block`]), so no write changes one in
//! which an acknowledged group stands. The salt is random and never leaves the store's files, so nobody who writes
//! resources can make one that looks like a record.
//!
//! Written by hand: the logs that crates offer (`okaywal`, `commitlog`, sled's own) have one file growing at its end,
//! so that each sync brings a new length to the disk, or sync in a thread of their own, and none keeps records apart by
//! blocks.
//!
//! # What opening finds
//! The records of each generation beyond the checkpoint position, from the number in the checkpoint position until one
//! is not there. A record that was being written when the power went was not acknowledged, and nothing follows it; so a
//! damaged one that *is* followed by another was acknowledged, and is damage ([`StoreError::Corrupt`]). Only of the
//! very last record nobody can tell. A file that is of a later generation than the two after the checkpoint position
//! says that the tree has lost its end. One that is not there, or stands in the place of the other, is damage, too, and
//! so is a log that ends before what was durable when the last checkpoint ended.

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

use self::record::{BLOCK, DISK_BLOCKS, edit, encode, generation, parse};

/// Files grow by as much as they hold, at least by this and at most by eight times this, bytes.
const GROWTH: u64 = 1 << 20;
/// A buffer that a large group made larger than this is given back.
const KEPT_BUFFER: usize = 1 << 20;
/// Their names in the store's directory.
pub(crate) const FILES: [&str; 2] = ["wal.0", "wal.1"];

/// Makes what was written to a file durable.
pub(crate) type SyncDisk = Box<dyn FnMut(&File) -> io::Result<()> + Send>;

/// The log, at its end.
pub(crate) struct Wal {
    /// The file of the current generation, and the other one.
    current: LogFile,
    other: LogFile,
    salt: u64,
    generation: u64,
    /// Of the next record.
    number: u64,
    /// Where the next record begins.
    position: u64,
    buffer: Vec<u8>,
    /// What records fill up, bytes; a power of two.
    block: usize,
    /// Bytes that are taken ahead of the end of each file.
    ahead: u64,
    /// Whether they are.
    reserved: bool,
    sync: SyncDisk,
}

struct LogFile {
    file: File,
    path: PathBuf,
    len: u64,
    /// What of the length was synced, as far as is known.
    durable_len: u64,
}

/// What the log has beyond the checkpoint position.
#[derive(Debug)]
pub(crate) struct LogTail {
    /// What became of each key.
    pub(crate) states: BTreeMap<IVec, State>,
    /// What the checkpoint position is once they are in the tree: the newest generation of which there is a record, and
    /// the number after it.
    pub(crate) checkpoint: CheckpointPosition,
    /// The files that have it, and up to where.
    held: Vec<(PathBuf, usize)>,
}

impl Wal {
    /// Begins the generation after the checkpoint position's, in the store's directory. Nothing may be in the log that
    /// is not in the tree. `ahead` bytes are kept in front of what is written, once [`Wal::reserve`] got them.
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

    /// What the checkpoint position is once everything up to here is in the tree.
    pub(crate) fn checkpoint(&self) -> CheckpointPosition {
        CheckpointPosition { generation: self.generation, number: self.number, salt: self.salt }
    }

    /// How far everything that was appended reaches: it is durable.
    pub(crate) fn end(&self) -> LogEnd {
        let (current, other) = (self.current.durable_len, self.other.durable_len);
        let lengths = if self.generation.is_multiple_of(2) { [current, other] } else { [other, current] };
        LogEnd { number: self.number, lengths }
    }

    /// What the checkpoint position is once everything before this generation is in the tree.
    pub(crate) fn settled(&self) -> CheckpointPosition {
        CheckpointPosition { generation: self.generation - 1, ..self.checkpoint() }
    }

    /// Bytes that are to be taken ahead of the end of each file.
    pub(crate) fn ahead(&self) -> u64 {
        self.ahead
    }

    /// Whether they are, as far as is known.
    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved
    }

    /// Bytes of the current generation.
    pub(crate) fn len(&self) -> u64 {
        self.position
    }

    /// Takes the disk space that is to be ahead of what is written, in both files; nothing if it is there.
    ///
    /// # Errors
    /// [`StoreError::Full`] when the disk has no room for it.
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

    /// Appends a group and makes it durable. After an error nobody knows whether it is, but for one.
    ///
    /// # Errors
    /// [`StoreError::Full`] when the disk has no room for it: then nothing was written.
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
        if record.capacity() <= KEPT_BUFFER {
            self.buffer = record;
        }
        result
    }

    /// Begins the next generation, in the other file: the generation before this one must be in the tree.
    pub(crate) fn rotate(&mut self) {
        std::mem::swap(&mut self.current, &mut self.other);
        (self.generation, self.position) = (self.generation + 1, 0);
    }

    /// Gives the disk space back. Everything must be in the tree.
    pub(crate) fn empty(&mut self) -> Result<(), StoreError> {
        for log in [&mut self.current, &mut self.other] {
            log.file.set_len(0).map_err(io_fault(&log.path, "empty"))?;
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
        let len = file.metadata().map_err(io_fault(&path, "look at"))?.len();
        Ok(Self { file, path, len, durable_len: 0 })
    }

    /// Makes the file reach to `end`, with zeros, and further if there is room.
    fn extend(&mut self, end: u64) -> Result<(), StoreError> {
        let more = self.len.clamp(GROWTH, GROWTH * 8);
        let grown = (self.len + more).max(end).next_multiple_of(GROWTH);
        let zeros = vec![0; GROWTH as usize];
        while self.len < grown {
            let left = usize::try_from(grown - self.len).unwrap_or(usize::MAX);
            match self.file.write_at(zeros.get(..left).unwrap_or(&zeros), self.len) {
                Ok(written) if written > 0 => self.len += written as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What is there will do.
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

/// The unit in which the disk under `dir` writes: what it does not tell (a file system over several disks, or in
/// memory) is taken for the kernel's page.
fn physical_block(dir: &Path) -> usize {
    let device = fs::metadata(dir).map_or(0, |found| found.dev());
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // A partition has what it says in its disk.
    let told = ["queue", "../queue"].iter().find_map(|queue| {
        fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{queue}/physical_block_size")).ok()
    });
    let told = told.and_then(|text| text.trim().parse::<u64>().ok()).filter(|block| block.is_power_of_two());
    told.unwrap_or(0).clamp(*DISK_BLOCKS.start(), *DISK_BLOCKS.end()) as usize
}

fn path(dir: &Path, generation: u64) -> PathBuf {
    let [even, odd] = FILES;
    dir.join(if generation.is_multiple_of(2) { even } else { odd })
}

/// Bytes that the log takes on the disk.
pub(crate) fn size_on_disk(dir: &Path) -> u64 {
    FILES.iter().filter_map(|name| fs::metadata(dir.join(name)).ok()).map(|found| found.len()).sum()
}

/// Whether there is a log, be it an empty one: not in a store that was made and never opened.
pub(crate) fn is_there(dir: &Path) -> bool {
    FILES.iter().any(|name| dir.join(name).exists())
}

/// A file of the log that should be there and is not: both are made before anything is written to either. A store that
/// was closed in good order needs neither.
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
/// [`StoreError::Corrupt`] when something acknowledged is not there.
pub(crate) fn recover(dir: &Path, checkpoint: CheckpointPosition, durable: LogEnd) -> Result<LogTail, StoreError> {
    let mut recovered = LogTail { states: BTreeMap::new(), checkpoint, held: Vec::new() };
    read(dir, checkpoint, durable, &mut recovered)?;
    Ok(recovered)
}

/// As [`recover`], of a damaged log: what the records come to that are in front of the damage.
pub(crate) fn readable(dir: &Path, checkpoint: CheckpointPosition, durable: LogEnd) -> BTreeMap<IVec, State> {
    let mut recovered = LogTail { states: BTreeMap::new(), checkpoint, held: Vec::new() };
    // Whoever asks knows of the damage.
    read(dir, checkpoint, durable, &mut recovered).ok();
    recovered.states
}

/// Takes in record after record, each of them whole.
fn read(
    dir: &Path,
    checkpoint: CheckpointPosition,
    durable: LogEnd,
    recovered: &mut LogTail,
) -> Result<(), StoreError> {
    // A generation begins only once the one before the last is in the tree.
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
            return Err(corrupt(format!("it is of generation {found}, which stands in the other file of the log")));
        }
        if let Some(found) = found.filter(|found| *found > checkpoint.generation + 2) {
            let has = checkpoint.generation;
            return Err(corrupt(format!(
                "it is of generation {found}, and the tree beside it has no more than generation {has}: the end of the tree's file is lost"
            )));
        }
        let damaged = |at: usize, number: u64, what: &str| {
            corrupt(format!("record {number} of the write-ahead log, at or before byte {at}, {what}"))
        };
        let record_at = |at: usize| parse(checkpoint.salt, generation, bytes.get(at..)?);
        let (mut at, mut number) = (0, recovered.checkpoint.number);
        while let Some(found) = record_at(at).filter(|found| found.number == number) {
            let (mut body, mut edits) = (found.body, Vec::new());
            while !body.is_empty() {
                edits.push(edit(&mut body).ok_or_else(|| damaged(at, number, "is no list of edits"))?);
            }
            recovered.states.extend(edits);
            at += found.size;
            number += 1;
            recovered.checkpoint = CheckpointPosition { generation, number, salt: checkpoint.salt };
        }
        // What comes after the end is of an earlier turn of the file, or of nobody.
        if let Some(later) = (at..bytes.len()).step_by(BLOCK).find(|later| record_at(*later).is_some()) {
            return Err(damaged(later, number, "is damaged, and others follow it"));
        }
        let [even, odd] = durable.lengths;
        let length = if generation.is_multiple_of(2) { even } else { odd };
        if (bytes.len() as u64) < length {
            let len = bytes.len();
            return Err(corrupt(format!(
                "it has {len} bytes, and had {length} when the last checkpoint ended: it is cut"
            )));
        }
        if at > 0 {
            recovered.held.push((path, at.min(bytes.len())));
        }
    }
    if recovered.checkpoint.number < durable.number {
        let (found, number) = (recovered.checkpoint.number, durable.number);
        let what = format!(
            "it ends before record {found}, and had those before {number} when the last checkpoint ended: it is cut, or an older one"
        );
        return Err(StoreError::Corrupt { path: path(dir, checkpoint.generation + 1), what });
    }
    Ok(())
}

impl LogTail {
    /// Makes durable what was found. The last record may have been written and never synced, and when the power goes
    /// while a part of it was copied to the tree, the rest must still be there. Written again, since a sync that failed
    /// once may have left the kernel in the belief that it is on the disk.
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
            rewrite().map_err(io_fault(path, "secure"))?;
        }
        Ok(())
    }
}

/// Reads bytes as a record under the salt that they begin with, and as the edits of one.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    if let Some((salt, rest)) = bytes.split_first_chunk::<8>() {
        let salt = u64::from_be_bytes(*salt);
        let of = generation(salt, rest).unwrap_or_default();
        let _ = parse(salt, of, rest).map(|found| (found.number, found.size, found.body.len()));
    }
    let mut body = bytes;
    while edit(&mut body).is_some() {}
}

#[cfg(test)]
mod tests;
