//! What is done with a store that no server has open: its check, and getting out of it what can be read.
//!
//! Sled has no way to open a file without writing to it, so the files are copied first, into the store's directory or
//! one that is named, and the copy is opened: the store stays as it was found, to the byte, and may be on a medium that
//! cannot be written.
//!
//! Sled panics on some damaged files. That ends in an error that names the file, whatever is looked at.

use std::{
    collections::{BTreeSet, HashSet},
    fs::{self, File},
    ops::Bound,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{
    files::{
        closed_at, format,
        layout::{self, DB, STORE},
        recovery, wal,
    },
    open::PASSED_OVER,
    tree::{
        check,
        checkpoint_position::CheckpointPosition,
        keys,
        panics::contained_read,
        record::{Kind, Meta},
        sled_file,
        table::Table,
    },
};
use crate::{
    Record, RecordKind, StoreError,
    check::{Problem, Report},
    error::io_fault,
};

/// What sled may keep in memory.
const CACHE_BYTES: u64 = 64 << 20;

/// A store that is looked at, and the copy that is opened instead of it.
struct Copied {
    dir: PathBuf,
    copy: TempDir,
    format: u32,
    /// Keeps servers out; `None` where nobody could make one.
    _lock: Option<File>,
}

impl Copied {
    fn make(path: &Path, work_dir: Option<&Path>) -> Result<Self, StoreError> {
        let dir = path.join(STORE);
        if !dir.exists() {
            return Err(StoreError::Absent { path: path.to_owned() });
        }
        let lock = match work_dir {
            Some(work_dir) => {
                mortise_durable_fs::make_dir(work_dir)?;
                layout::lock_read_only(path)?
            }
            None => Some(layout::lock(path)?),
        };
        let format = format::judge(path, &dir)?;
        if work_dir.is_none() {
            layout::remove_copies(path)?;
        }
        let within = work_dir.unwrap_or(path);
        let copy = tempfile::Builder::new().prefix(layout::COPY).tempdir_in(within);
        let copy = copy.map_err(io_fault(within, "make a directory for a copy in"))?;
        copy_dir(&dir, copy.path())?;
        sled_file::remove_unfinished_snapshots(copy.path())?;
        Ok(Self { dir, copy, format, _lock: lock })
    }

    /// The tree. Errors name the file as it is, not the copy.
    fn open(&self) -> Result<Table, StoreError> {
        let file = self.dir.join(DB);
        Ok(Table::new(sled_file::open_sled(self.copy.path(), &file, CACHE_BYTES)?, file))
    }

    /// Copies to the tree what the log has.
    fn settle(&self, table: &Table) -> Result<(), StoreError> {
        let data = sled_file::data_file(&self.copy.path().join(DB))?;
        recovery::settle(&self.dir, table, &data, || Ok(()), false).map(drop)
    }

    /// Puts in front of the tree what can be read of a log that is damaged.
    fn settle_readable(&self, table: &Table) -> Result<(), StoreError> {
        if let Some((checkpoint, end)) = CheckpointPosition::read(table)? {
            table.recent().put_in_front(wal::readable(&self.dir, checkpoint, end));
        }
        Ok(())
    }
}

/// Checks the store in `path`.
pub(crate) fn check(path: &Path, work_dir: Option<&Path>) -> Result<Report, StoreError> {
    let copied = Copied::make(path, work_dir)?;
    let Copied { dir, format, .. } = &copied;
    let file = dir.join(DB);
    let (meta, mut problems) = contained_read(&file, || {
        let table = copied.open()?;
        copied.settle(&table)?;
        let meta = recovery::meta(&table)?;
        Ok((meta, check::walk(&table, &dir.join("blobs"), meta)?))
    })?;
    let lost = closed_at::judge(dir, meta.last_seq)?;
    problems.extend(lost.map(|fault| Problem { thing: file.display().to_string(), fault }));
    let Meta { last_seq: sequence, first_event, .. } = meta;
    Ok(Report {
        format: *format,
        sequence,
        first_event,
        events: meta.event_count(),
        bytes: layout::size(dir)?,
        problems,
    })
}

/// Hands every resource of the store in `path` that can be read to `found`, with the highest version that may have been
/// given. Answers what cannot be read.
pub(crate) fn salvage(
    path: &Path,
    work_dir: Option<&Path>,
    found: &mut dyn FnMut(Record),
) -> Result<(u64, Vec<Problem>), StoreError> {
    let copied = Copied::make(path, work_dir)?;
    let file = copied.dir.join(DB);
    let mut problems = Vec::new();
    let mut problem = |thing: String, fault: String| problems.push(Problem { thing, fault });
    let table = contained_read(&file, || copied.open())?;
    if let Err(error) = contained_read(&file, || copied.settle(&table)) {
        problem("the write-ahead log".to_owned(), error.to_string());
        // Why it is not more was just said.
        contained_read(&file, || copied.settle_readable(&table)).ok();
    }
    let counters = contained_read(&file, || recovery::meta(&table));
    let mut highest = counters.as_ref().map_or(0, |meta| meta.highest);
    if let Err(error) = &counters {
        problem("the counters".to_owned(), error.to_string());
    }
    match closed_at::judge(&copied.dir, counters.as_ref().map_or(0, |meta| meta.last_seq)) {
        Ok(None) => {}
        Ok(Some(lost)) => problem(file.display().to_string(), lost),
        Err(error) => problem("the commit at which it was closed".to_owned(), error.to_string()),
    }
    if let Ok(Some(closed_at)) = closed_at::get(&copied.dir) {
        highest = highest.max(closed_at);
    }
    let unclean = wal::size_on_disk(&copied.dir) > 0 || !closed_at::is_there(&copied.dir);
    let mut types = BTreeSet::new();
    if let Err(error) = contained_read(&file, || first_keys(&table, &mut types)) {
        problem("the list of types".to_owned(), error.to_string());
    }
    let mut from = vec![keys::RESOURCE];
    loop {
        // A walk that a damaged page ends goes on behind what it came to; if it came to nothing, with the next type.
        let begun = from.clone();
        let walked = contained_read(&file, || {
            for item in table.range(from.clone()..vec![keys::RESOURCE + 1]) {
                let (key, value) = item?;
                from = [&*key, &[0]].concat();
                match read(&table, &key, value) {
                    Ok(record) => {
                        highest = highest.max(record.sequence);
                        found(record);
                    }
                    Err(error) => problem(keys::describe(&key), error.to_string()),
                }
            }
            Ok(())
        });
        match walked {
            Ok(()) => break,
            Err(error) => {
                problem(
                    format!("what follows {}", keys::describe(begun.strip_suffix(&[0]).unwrap_or(&begun))),
                    error.to_string(),
                );
                if from == begun {
                    let next = types.range::<Vec<u8>, _>((Bound::Excluded(&begun), Bound::Unbounded)).next();
                    let Some(next) = next else { break };
                    from.clone_from(next);
                }
            }
        }
    }
    if let Ok(meta) = counters
        && let Ok(walked) = contained_read(&file, || check::walk(&table, &copied.dir.join("blobs"), meta))
    {
        let known: HashSet<_> = problems.iter().map(|known| known.thing.clone()).collect();
        problems.extend(walked.into_iter().filter(|found| !known.contains(&found.thing)));
    }
    // As an opening has it: the end of the log may be lost.
    Ok((if unclean { highest.saturating_add(PASSED_OVER) } else { highest }, problems))
}

/// What the keys of each type's resources begin with, as far as it can be read.
fn first_keys(table: &Table, found: &mut BTreeSet<Vec<u8>>) -> Result<(), StoreError> {
    for item in table.range(vec![keys::SUM]..vec![keys::SUM + 1]) {
        let key = keys::sum_type(&item?.0).map(|type_key| keys::of_type(&type_key));
        found.extend(key.and_then(Result::ok));
    }
    Ok(())
}

fn read(table: &Table, key: &[u8], value: sled::IVec) -> Result<Record, StoreError> {
    let head = table.head(key, &value)?;
    let resource = table.decoder().decode(key, table.payload(key, value)?)?;
    if head.kind != Kind::Resource {
        return Err(table.damaged(key, "its head belongs to another record"));
    }
    let payload = prost::Message::encode_to_vec(&resource);
    Ok(Record { kind: RecordKind::Resource, sequence: head.seq, payload })
}

fn copy_dir(from: &Path, to: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(from).map_err(io_fault(from, "read"))? {
        let path = entry.map_err(io_fault(from, "read"))?.path();
        let Some(name) = path.file_name() else { continue };
        // The log is read where it is.
        if wal::FILES.iter().any(|log| name == *log) {
            continue;
        }
        let target = to.join(name);
        if path.is_dir() {
            fs::create_dir(&target).map_err(io_fault(&target, "make"))?;
            copy_dir(&path, &target)?;
        } else {
            let mut source = File::open(&path).map_err(io_fault(&path, "copy"))?;
            // Not its mode: the original may be read-only.
            let mut copy = File::create(&target).map_err(io_fault(&target, "write"))?;
            std::io::copy(&mut source, &mut copy).map_err(io_fault(&path, "copy"))?;
        }
    }
    Ok(())
}
