//! The directory of scheduled backups: names by time, whole files alone, and the removal of old ones.
//!
//! # Contract
//! A file appears under its name once it was written, synced, and read again from the disk as a restore would. Only files
//! with such a name are listed or removed; a file of another name stays, whatever it is. The newest one is never
//! removed.
//!
//! A file that a killed server left unfinished has another name; it is removed a day after its last change.
//!
//! # Limits
//! A run leaves [`SPARE_BYTES`] of the disk free, so that a store on the same disk goes on.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};
use mortise_durable_fs::{AtomicFile, make_dir, sync};
use mortise_store::Snapshot;
use tokio::{sync::mpsc, task::spawn_blocking};

use crate::{
    archive::Archive,
    error::{BackupError, io_fault},
    output::{Piece, stream},
    sources::Sources,
};

/// Form of the time in a name, in UTC.
const NAME_FORM: &str = "mortise-%Y%m%dT%H%M%SZ.tar.gz";

/// Pieces of the archive that wait for the disk, some 256 KiB each.
const MAX_QUEUED_PIECES: usize = 4;

/// Bytes of the disk that a run leaves free.
const SPARE_BYTES: u64 = 64 << 20;

/// Bytes written between two looks at the free space.
const SPACE_CHECK_BYTES: u64 = 8 << 20;

/// Beginning and end of the names of unfinished files, as [`AtomicFile`] gives them.
const UNFINISHED: (&str, &str) = (".mortise-", ".part");

/// Time since the last change after which an unfinished file is removed. A command may still write a younger one.
const UNFINISHED_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// A backup in the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupFile {
    /// The file.
    pub path: PathBuf,
    /// Time of the backup, by the name.
    pub taken_at: Timestamp,
    /// Size of the file.
    pub bytes: u64,
}

/// Rules for the removal of old backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Number of kept files; `None` keeps any number.
    pub count: Option<usize>,
    /// Longest age of a kept file; `None` keeps any age.
    pub age: Option<SignedDuration>,
}

/// Returns the backups of a directory, the newest first. A missing directory has none.
///
/// # Errors
/// Faults of the file system.
pub fn list_backups(dir: &Path) -> Result<Vec<BackupFile>, BackupError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(io_fault(dir, "read")(e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io_fault(dir, "read"))?;
        let Some(taken_at) = entry.file_name().to_str().and_then(time_of) else { continue };
        // A file that was removed meanwhile is not listed.
        if let Ok(known) = entry.metadata()
            && known.is_file()
        {
            found.push(BackupFile { path: entry.path(), taken_at, bytes: known.len() });
        }
    }
    found.sort_by_key(|file| std::cmp::Reverse(file.taken_at));
    Ok(found)
}

/// Removes old backups and what killed servers left unfinished, and returns their paths. One that cannot be removed does
/// not keep the others.
///
/// # Errors
/// The first fault of the file system.
pub fn remove_old_backups(dir: &Path, retention: Retention, now: Timestamp) -> Result<Vec<PathBuf>, BackupError> {
    let (mut removed, mut fault) = (Vec::new(), None);
    let is_over = |(number, file): &(usize, BackupFile)| {
        let is_surplus = retention.count.is_some_and(|count| *number >= count);
        is_surplus || retention.age.is_some_and(|age| now.duration_since(file.taken_at) > age)
    };
    let old = list_backups(dir)?.into_iter().enumerate().skip(1).filter(is_over).map(|(_, file)| file.path);
    for path in old.chain(unfinished(dir)) {
        match fs::remove_file(&path) {
            Ok(()) => removed.push(path),
            Err(e) => fault = fault.or(Some(io_fault(&path, "remove")(e))),
        }
    }
    if !removed.is_empty() {
        sync(dir)?;
    }
    fault.map_or(Ok(removed), Err)
}

/// Returns the unfinished files that have not changed for long.
fn unfinished(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let name = entry.file_name();
        let name = name.to_str()?;
        let changed = entry.metadata().ok().filter(fs::Metadata::is_file)?.modified().ok()?;
        let is_old = changed.elapsed().is_ok_and(|age| age > UNFINISHED_AGE);
        (name.starts_with(UNFINISHED.0) && name.ends_with(UNFINISHED.1) && is_old).then(|| entry.path())
    })
}

/// Writes a backup into the directory, verifies it, and returns it. Makes the directory if it is missing. Safe to
/// cancel: nothing of the file remains.
///
/// # Errors
/// Faults of the store, of the sources and of the file system, and [`BackupError::NoSpace`].
pub async fn write_backup(
    dir: &Path,
    at: Timestamp,
    snapshot: Box<dyn Snapshot>,
    sources: Sources,
) -> Result<BackupFile, BackupError> {
    let path = dir.join(at.strftime(NAME_FORM).to_string());
    let (pieces, waiting) = mpsc::channel(MAX_QUEUED_PIECES);
    let writing = spawn_blocking({
        let path = path.clone();
        move || write(&path, waiting)
    });
    let streaming = stream(snapshot, sources, |_| (), pieces);
    let (streamed, written) = tokio::join!(streaming, writing);
    let written = match written {
        Ok(written) => written,
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => return Err(BackupError::Stopping),
    };
    match (streamed, written) {
        // The writer has the reason.
        (Err(BackupError::ReaderGone), Err(fault)) | (Ok(()), Err(fault)) => Err(fault),
        (Err(fault), _) => Err(fault),
        (Ok(()), Ok(bytes)) => Ok(BackupFile { path, taken_at: at, bytes }),
    }
}

/// Writes the pieces into a file, which takes its name after it was verified. Returns its size. A stream that ended early
/// has no seal, so it gets no name.
fn write(path: &Path, mut pieces: mpsc::Receiver<Piece>) -> Result<u64, BackupError> {
    let dir = mortise_durable_fs::parent_dir(path);
    make_dir(dir)?;
    let mut part = AtomicFile::new_beside(path)?;
    let (mut bytes, mut checked) = (0, None);
    while let Some(piece) = pieces.blocking_recv() {
        if checked.is_none_or(|checked| bytes >= checked + SPACE_CHECK_BYTES) {
            let space = rustix::fs::statvfs(dir).map_err(|e| io_fault(dir, "read")(e.into()))?;
            let left = space.f_bavail.saturating_mul(space.f_frsize);
            if left < SPARE_BYTES + SPACE_CHECK_BYTES {
                return Err(BackupError::NoSpace { dir: dir.to_owned(), spare: SPARE_BYTES + SPACE_CHECK_BYTES });
            }
            checked = Some(bytes);
        }
        part.file().write_all(&piece.bytes).map_err(io_fault(path, "write"))?;
        bytes += piece.bytes.len() as u64;
    }
    part.sync()?;
    let file = part.file().try_clone().map_err(io_fault(path, "read"))?;
    Archive::from_file(path.to_owned(), file)?;
    part.create_durably()?;
    Ok(bytes)
}

/// The time in the name of a backup; `None` for another name.
fn time_of(name: &str) -> Option<Timestamp> {
    let time = DateTime::strptime(NAME_FORM, name).ok()?;
    let time = time.to_zoned(TimeZone::UTC).ok()?.timestamp();
    (time.strftime(NAME_FORM).to_string() == name).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &[BackupFile]) -> Vec<String> {
        files.iter().map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn old_backups_go_by_count_and_age_and_other_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let all = [
            "mortise-20260301T000000Z.tar.gz",
            "mortise-20260302T000000Z.tar.gz",
            "mortise-20260303T000000Z.tar.gz",
            "mortise-20260304T000000Z.tar.gz",
        ];
        let others = [
            "mortise-2026-03-01.tar.gz",
            "mortise-20260301T000000Z.tar.gz.part",
            "mortise-20261301T000000Z.tar.gz",
            "x",
        ];
        for name in all.iter().chain(&others) {
            fs::write(dir.path().join(name), "x").unwrap();
        }
        fs::create_dir(dir.path().join("mortise-20260305T000000Z.tar.gz")).unwrap();
        assert_eq!(names(&list_backups(dir.path()).unwrap()), [all[3], all[2], all[1], all[0]]);
        let now = "2026-03-04T12:00:00Z".parse().unwrap();
        let remove = |count, days: Option<i64>| {
            let age = days.map(|days| SignedDuration::from_hours(24 * days));
            remove_old_backups(dir.path(), Retention { count, age }, now).unwrap().len()
        };
        assert_eq!((remove(None, None), remove(Some(4), Some(9))), (0, 0));
        assert_eq!(remove(Some(3), None), 1);
        assert_eq!(remove(Some(9), Some(2)), 1);
        assert_eq!(names(&list_backups(dir.path()).unwrap()), [all[3], all[2]]);
        // The newest one stays, however old it is.
        let later = "2036-03-04T12:00:00Z".parse().unwrap();
        let retention = Retention { count: Some(1), age: Some(SignedDuration::from_hours(1)) };
        assert_eq!(remove_old_backups(dir.path(), retention, later).unwrap().len(), 1);
        assert_eq!(names(&list_backups(dir.path()).unwrap()), [all[3]]);
        assert!(others.iter().all(|name| dir.path().join(name).exists()));
        assert_eq!(list_backups(&dir.path().join("missing")).unwrap(), []);
    }

    #[test]
    fn unfinished_files_of_killed_servers_go_after_a_day() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str, hours: u64| {
            let file = fs::File::create(dir.path().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - Duration::from_secs(hours * 3_600)).unwrap();
        };
        for (name, hours) in
            [(".mortise-old.part", 25), (".mortise-new.part", 23), ("mortise-x.part", 99), (".mortise-x", 99)]
        {
            at(name, hours);
        }
        // The names are those that files have while they are written.
        let part = AtomicFile::new_beside(&dir.path().join("x")).unwrap();
        let unfinished =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(unfinished.filter(|name| name.starts_with(UNFINISHED.0) && name.ends_with(UNFINISHED.1)).count(), 3);
        drop(part);
        let retention = Retention { count: None, age: None };
        let removed = remove_old_backups(dir.path(), retention, Timestamp::now()).unwrap();
        assert_eq!(removed, [dir.path().join(".mortise-old.part")]);
    }

    #[test]
    fn a_stream_that_ends_early_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("below").join("mortise-20260301T000000Z.tar.gz");
        let (pieces, waiting) = mpsc::channel(4);
        pieces.blocking_send(Piece { bytes: vec![31, 139, 8, 0], records: 0 }).unwrap();
        drop(pieces);
        assert!(write(&path, waiting).is_err());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    }
}
