//! Opening sled's files, which sled itself does not do with care: it panics on damage and trips over what a kill left.

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

/// Sled's default, written down because it is part of the format: sled refuses another one than the file was made with.
pub(super) const SEGMENT_BYTES: usize = 512 * 1024;

/// Has the kernel forget what it holds of a file and has on the disk, so that what is read next comes from there. After
/// a sync that failed, the kernel takes for written what is not, and shows it to whoever reads; a store that was not
/// closed may have seen one.
pub(crate) fn read_anew(file: &Path) -> Result<(), StoreError> {
    let opened = File::open(file).map_err(io_fault(file, "open"))?;
    // Of what is still to be written it writes some, and forgets none.
    rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::DontNeed)
        .map_err(|error| io_fault(file, "give advice on")(error.into()))
}

/// A process that is killed while sled opens leaves `snap.….generating` behind, which sled would take for its newest
/// snapshot and call corrupt. A snapshot only saves sled time, and it removes the last one after a new one is complete.
pub(crate) fn remove_unfinished_snapshots(dir: &Path) -> Result<(), StoreError> {
    remove_snapshots(dir, |name| name.ends_with(".generating"))
}

/// Removes those of sled's snapshots whose names are meant. A snapshot only saves sled time.
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
