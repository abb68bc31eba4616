//! The files: `audit.jsonl`, which is written, and closed ones, `audit-<time>.jsonl`.
//!
//! Libraries for rotation lose lines: docs/decisions/0027-files-of-the-audit-log-are-rotated-here.md.
//!
//! Before each write and each sync the name is compared with the open file: after a move or a removal from outside, a
//! new file gets the name and the next lines. A missing directory stays missing, and is a fault: it may be a mount that
//! went away, whose lines must not go to another disk.

use std::{
    borrow::Cow,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use mortise_durable_fs::{FsError, identity, make_private_dir, sync};

use crate::chain::{self, Chain, Head, Tail};

/// Name of the file that is written.
pub(crate) const CURRENT: &str = "audit.jsonl";

/// The current file, with rotation.
pub(crate) struct RotatingFile {
    dir: PathBuf,
    limit: u64,
    keep: usize,
    open: Option<Open>,
    chain: Chain,
    /// End of the chain as it was last written.
    written_head: Option<Head>,
    /// Whether the last attempt to write it failed.
    head_failed: bool,
}

struct Open {
    file: File,
    bytes: u64,
    /// Device and inode of the file.
    identity: (u64, u64),
    /// Whether the last line lacks its line feed.
    ends_within_line: bool,
    /// Whether something in the file is not synced yet.
    dirty: bool,
    /// Whether the name in the directory is not synced yet.
    unnamed: bool,
}

impl RotatingFile {
    /// Opens the current file in a directory; makes both if missing.
    pub(crate) fn open(dir: &Path, limit: u64, keep: usize) -> Result<Self, FsError> {
        make_private_dir(dir)?;
        let chain = Chain::resume(dir)?;
        let keep = keep.max(1);
        let mut files =
            Self { dir: dir.to_owned(), limit, keep, open: None, written_head: None, head_failed: false, chain };
        files.open = Some(files.open_current()?);
        Ok(files)
    }

    /// Appends records, and returns their lines in the chain: all of them, or none as far as the file system allows.
    /// Rotates first if the lines exceed the limit of the current file. After an error, the next call opens the file
    /// again.
    pub(crate) fn append(&mut self, records: &[String]) -> Result<Vec<String>, FsError> {
        self.follow_name()?;
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.open_current()?,
        };
        let mut chain = self.chain.clone();
        let added: Vec<String> = records.iter().map(|record| chain.add(record)).collect();
        let lines = added.concat();
        let lines = lines.as_bytes();
        if open.bytes > 0 && open.bytes.saturating_add(lines.len() as u64) > self.limit {
            self.rotate(&mut open)?;
            open = self.open_current()?;
        }
        let ended = if open.ends_within_line { Cow::Owned([b"\n", lines].concat()) } else { Cow::Borrowed(lines) };
        match open.file.write_all(&ended) {
            Ok(()) => {
                open.bytes = open.bytes.saturating_add(ended.len() as u64);
                (open.dirty, open.ends_within_line) = (true, false);
                self.open = Some(open);
                self.chain = chain;
                Ok(added)
            }
            Err(error) => {
                // If half a line stays, the lines after the next opening end it.
                let _ = open.file.set_len(open.bytes);
                Err(FsError::with_path(&self.current(), "write into")(error))
            }
        }
    }

    /// Syncs the appended lines to the disk, and opens the file again if its name shows another one or none.
    pub(crate) fn sync(&mut self) -> Result<(), FsError> {
        let synced = self.sync_open();
        self.follow_name()?;
        if self.open.is_none() {
            self.open = Some(self.open_current()?);
        }
        synced.and_then(|()| self.sync_open())
    }

    /// Syncs and closes the open file, and opens the one of that name, or makes it.
    pub(crate) fn reopen(&mut self) -> Result<(), FsError> {
        let synced = self.sync_open();
        self.open = None;
        self.open = Some(self.open_current()?);
        metrics::counter!("mortise_audit_reopened_total").increment(1);
        synced
    }

    fn sync_open(&mut self) -> Result<(), FsError> {
        let path = self.current();
        let Some(open) = &mut self.open else { return Ok(()) };
        if open.dirty {
            open.file.sync_data().map_err(FsError::with_path(&path, "sync"))?;
            open.dirty = false;
        }
        if open.unnamed {
            sync(&self.dir)?;
            open.unnamed = false;
        }
        self.write_head();
        Ok(())
    }

    /// Writes the end of the chain, after the records: it never names one that the disk may lose. A failure does not
    /// count as a fault of the log, whose records are written; the next sync tries again.
    fn write_head(&mut self) {
        let Some(head) = self.chain.head().filter(|head| self.written_head.as_ref() != Some(head)) else { return };
        match chain::write_head(&self.dir, &head) {
            Ok(()) => (self.written_head, self.head_failed) = (Some(head), false),
            Err(fault) if !self.head_failed => {
                self.head_failed = true;
                tracing::warn!("the end of the audit log's chain cannot be written: {fault}; it is tried again");
            }
            Err(_) => {}
        }
    }

    /// Opens the file again if its name shows another file or none.
    fn follow_name(&mut self) -> Result<(), FsError> {
        let path = self.current();
        let Some(open) = &self.open else { return Ok(()) };
        let is_there = match identity(&path) {
            Ok(found) => found == open.identity,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(FsError::with_path(&path, "read metadata")(error)),
        };
        if is_there {
            return Ok(());
        }
        let reopened = self.reopen();
        if self.open.is_some() {
            tracing::warn!(path = %path.display(), "the audit file was moved or removed: a new one takes its records");
        }
        reopened
    }

    fn current(&self) -> PathBuf {
        self.dir.join(CURRENT)
    }

    fn open_current(&mut self) -> Result<Open, FsError> {
        let path = self.current();
        let open = || -> io::Result<_> {
            let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path)?;
            let found = file.metadata()?;
            let (identity, bytes) = ((found.dev(), found.ino()), found.len());
            Ok((file, bytes, identity, chain::tail(&path)?))
        };
        let (file, bytes, identity, Tail { torn, ends_within_line, .. }) =
            open().map_err(FsError::with_path(&path, "open"))?;
        if let Some(torn) = &torn {
            self.chain.note_torn(torn);
        }
        // The next lines end it, not the opening, which a full disk must not refuse.
        Ok(Open { file, bytes, identity, ends_within_line, dirty: true, unnamed: true })
    }

    /// Syncs the current file, renames it with the time, and removes the oldest files.
    fn rotate(&self, open: &mut Open) -> Result<(), FsError> {
        let path = self.current();
        open.file.sync_data().map_err(FsError::with_path(&path, "sync"))?;
        let mut closed_file_path = self.closed_file_path(Timestamp::now());
        while closed_file_path.exists() {
            closed_file_path = self.closed_file_path(Timestamp::now());
        }
        fs::rename(&path, &closed_file_path).map_err(FsError::with_path(&path, "rename"))?;
        self.remove_old()?;
        sync(&self.dir)
    }

    /// Returns a name for a closed file; names sort by time.
    fn closed_file_path(&self, now: Timestamp) -> PathBuf {
        self.dir.join(format!("audit-{}.jsonl", now.strftime("%Y%m%dT%H%M%S.%6fZ")))
    }

    fn remove_old(&self) -> Result<(), FsError> {
        let done = closed_files(&self.dir)?;
        let old = done.len().saturating_sub(self.keep - 1);
        for path in done.iter().take(old) {
            fs::remove_file(path).map_err(FsError::with_path(path, "remove"))?;
        }
        Ok(())
    }
}

/// Returns the closed files of a directory, the oldest first; none if it is missing.
pub(crate) fn closed_files(dir: &Path) -> Result<Vec<PathBuf>, FsError> {
    let failed = |error| FsError::with_path(dir, "list")(error);
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut done = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("audit-") && name.ends_with(".jsonl")) {
            done.push(entry.path());
        }
    }
    done.sort();
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name.ends_with(".jsonl"));
        names.sort();
        names
    }

    fn append(files: &mut RotatingFile, number: u64) -> Result<Vec<String>, FsError> {
        files.append(&[format!("{{\"line\":{number}}}\n")])
    }

    /// The numbers of the records in a file.
    fn numbers(path: &Path) -> Vec<u64> {
        let text = fs::read_to_string(path).unwrap();
        text.lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["line"].as_u64().unwrap())
            .collect()
    }

    #[test]
    fn files_are_bounded_in_bytes_and_number_and_lose_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("audit");
        let mut files = RotatingFile::open(&dir, 600, 3).unwrap();
        for i in 0..40 {
            append(&mut files, i).unwrap();
        }
        files.sync().unwrap();
        assert_eq!(names(&dir).len(), 3, "{:?}", names(&dir));
        let mut found = Vec::new();
        for path in names(&dir).iter().map(|name| dir.join(name)) {
            let bytes = fs::metadata(&path).unwrap().len();
            assert!((1..=600).contains(&bytes), "{bytes}");
            found.extend(numbers(&path));
        }
        let expected: Vec<_> = (40 - found.len() as u64..40).collect();
        assert!(found.len() > 10, "{}", found.len());
        assert_eq!(found, expected, "the newest, in order");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&dir.join(CURRENT)), mode(&dir.join(chain::HEAD))), (0o700, 0o600, 0o600));
    }

    #[test]
    fn a_half_line_of_before_is_ended_and_a_file_that_is_gone_is_made() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(CURRENT), "{\"whole\":1}\n{\"ha").unwrap();
        let mut files = RotatingFile::open(dir.path(), 1_000, 2).unwrap();
        let added = append(&mut files, 1).unwrap().concat();
        let text = fs::read_to_string(dir.path().join(CURRENT)).unwrap();
        assert_eq!(text, format!("{{\"whole\":1}}\n{{\"ha\n{added}"));
    }

    #[test]
    fn a_moved_or_removed_file_is_left_for_a_new_one_before_the_next_line() {
        let dir = tempfile::tempdir().unwrap();
        let (current, moved) = (dir.path().join(CURRENT), dir.path().join("moved"));
        let mut files = RotatingFile::open(dir.path(), 1_000, 2).unwrap();
        append(&mut files, 1).unwrap();
        fs::rename(&current, &moved).unwrap();
        append(&mut files, 2).unwrap();
        assert_eq!((numbers(&moved), numbers(&current)), (vec![1], vec![2]));
        fs::remove_file(&current).unwrap();
        files.sync().unwrap();
        assert_eq!(fs::read(&current).unwrap(), b"", "an idle log notices it with the next sync");
        fs::rename(&moved, &current).unwrap();
        append(&mut files, 3).unwrap();
        assert_eq!(numbers(&current), [1, 3], "another file under the name");
    }

    /// The next record has the number of the one that was not written.
    #[test]
    fn a_failed_write_takes_no_number() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = RotatingFile::open(dir.path(), 1_000, 2).unwrap();
        append(&mut files, 1).unwrap();
        let current = dir.path().join(CURRENT);
        fs::remove_file(&current).unwrap();
        std::os::unix::fs::symlink("/dev/full", &current).unwrap();
        for _ in 0..2 {
            append(&mut files, 2).unwrap_err();
        }
        fs::remove_file(&current).unwrap();
        let added = append(&mut files, 2).unwrap().concat();
        assert!(added.contains("\"seq\":2,"), "{added}");
    }

    #[test]
    fn a_missing_directory_is_a_fault_until_it_is_back() {
        let outer = tempfile::tempdir().unwrap();
        let (dir, elsewhere) = (outer.path().join("audit"), outer.path().join("elsewhere"));
        let mut files = RotatingFile::open(&dir, 1_000, 2).unwrap();
        append(&mut files, 1).unwrap();
        fs::rename(&dir, &elsewhere).unwrap();
        let faults = [files.sync().unwrap_err(), append(&mut files, 2).unwrap_err(), files.reopen().unwrap_err()];
        for fault in faults {
            assert!(fault.to_string().contains("audit.jsonl"), "{fault}");
        }
        assert!(!dir.exists());
        fs::rename(&elsewhere, &dir).unwrap();
        append(&mut files, 2).unwrap();
        assert_eq!(numbers(&dir.join(CURRENT)), [1, 2]);
    }
}
