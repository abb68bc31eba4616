//! Opening sled's files with more care than sled takes: it panics on damage and on leftovers of a kill.

use std::{
    fs::{self, File},
    io,
    panic::AssertUnwindSafe,
    path::Path,
    thread,
    time::Duration,
};

use crate::{
    StoreError,
    engine::tree::{panics::panic_text, table::fault},
    error::io_fault,
};

/// Size of sled's segments, bytes. Sled's default, fixed here as a part of the format: sled rejects another value than
/// the file was made with.
pub(super) const SEGMENT_BYTES: usize = 512 * 1024;

/// Drops a file's synced pages from the kernel's cache, so that the next reads come from the disk. After a failed sync,
/// the kernel takes unwritten pages for written, and shows them to readers; a store that was not closed may have had
/// such a failure.
pub(crate) fn drop_cached_pages(file: &Path) -> Result<(), StoreError> {
    let opened = File::open(file).map_err(io_fault(file, "open"))?;
    // Pages that are not written yet stay in the cache.
    rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::DontNeed)
        .map_err(|error| io_fault(file, "drop cached pages")(error.into()))
}

/// Removes `snap.….generating`, left by a process that was killed while sled opened. Sled would take it for its newest
/// snapshot and call it corrupt. A snapshot only saves sled time, and sled removes the last one after a new one is
/// complete.
pub(crate) fn remove_unfinished_snapshots(dir: &Path) -> Result<(), StoreError> {
    remove_snapshots(dir, |name| name.ends_with(".generating"))
}

/// Removes sled's snapshots with matching names. A snapshot only saves sled time.
pub(crate) fn remove_snapshots(dir: &Path, is_meant: impl Fn(&str) -> bool) -> Result<(), StoreError> {
    for entry in fs::read_dir(dir).map_err(io_fault(dir, "read"))? {
        let path = entry.map_err(io_fault(dir, "read"))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("snap.") && is_meant(name) {
            fs::remove_file(&path).map_err(io_fault(&path, "remove"))?;
        }
    }
    Ok(())
}

/// Attempts to open a database that this process has just closed, and the pause between two: 5 s in all.
const LOCK_ATTEMPTS: u32 = 250;
const LOCK_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Opens sled without its own flush thread.
///
/// Sled panics on some damaged files instead of returning an error. The panic is caught here, where unwinding only
/// drops sled's partial state, and becomes an error that names `file`, the path that the user knows.
pub(crate) fn open_sled(dir: &Path, file: &Path, cache_bytes: u64) -> Result<sled::Db, StoreError> {
    let config =
        sled::Config::new().path(dir).cache_capacity(cache_bytes).segment_size(SEGMENT_BYTES).flush_every_ms(None);
    // Our own lock is held, so sled's lock belongs to a background thread of a database that this process just closed.
    let mut attempts = LOCK_ATTEMPTS;
    loop {
        match std::panic::catch_unwind(AssertUnwindSafe(|| config.open())) {
            Ok(Ok(db)) => return Ok(db),
            Ok(Err(sled::Error::Io(error))) if is_lock(&error) && attempts > 0 => {
                attempts -= 1;
                #[allow(clippy::disallowed_methods, reason = "opening blocks, and says so")]
                thread::sleep(LOCK_RETRY_PAUSE);
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

/// Opens sled's file, to sync it.
pub(crate) fn data_file(path: &Path) -> Result<File, StoreError> {
    fs::OpenOptions::new().read(true).write(true).open(path).map_err(io_fault(path, "open"))
}
