//! Putting a restored directory into its place.
//!
//! ```text
//! <data_dir>/restore.new/     being made; worth nothing
//! <data_dir>/restore.ready/   whole and durable: from here on the restore is done, whatever happens
//! <data_dir>/replaced/        what was there before, until the new is in its place
//! ```
//!
//! `restore.ready` is put into place by moves, each of which finds out for itself whether it was made already. So it can be
//! interrupted anywhere: whoever comes next, a server that starts or another restore, goes on ([`finish_interrupted`]).

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use mortise_store::Lock;

use crate::error::{BackupError, io_fault};

/// Where the store stands in a data directory.
pub(crate) const STORE: &str = "store";
/// Where the kept components stand.
pub(crate) const PLUGINS: &str = "plugins";
/// What is for people: manifest and configuration of the backup.
pub(crate) const RESTORED: &str = "restored";
/// Being made.
pub(crate) const NEW: &str = "restore.new";
/// To be put into place.
pub(crate) const READY: &str = "restore.ready";
/// What was there before.
pub(crate) const REPLACED: &str = "replaced";

/// What is moved: from `restore.ready` to the data directory. The store's own directory has the lock in it, which stays.
const MOVES: [&str; 3] = ["store/store", PLUGINS, RESTORED];

/// Completes a restore that was interrupted after it was decided. Nothing happens when there is none. Before the store of
/// the directory is opened.
///
/// # Errors
/// [`BackupError::Store`] when a process has the store; faults of the file system.
pub fn finish_interrupted(data_dir: &Path) -> Result<bool, BackupError> {
    if !data_dir.join(READY).is_dir() {
        return Ok(false);
    }
    let lock = Lock::take(&data_dir.join(STORE))?;
    put(data_dir)?;
    drop(lock);
    Ok(true)
}

/// Decides a restore: `restore.new`, which is complete, is what the data directory will be.
pub(crate) fn decide(data_dir: &Path) -> Result<(), BackupError> {
    sync_tree(&data_dir.join(NEW))?;
    rename(&data_dir.join(NEW), &data_dir.join(READY))?;
    sync(data_dir)
}

/// Moves what is ready into its place, and what was there out of the way. The store is locked.
pub(crate) fn put(data_dir: &Path) -> Result<(), BackupError> {
    let (ready, replaced) = (data_dir.join(READY), data_dir.join(REPLACED));
    for name in MOVES {
        let (from, to, aside) = (ready.join(name), data_dir.join(name), replaced.join(name));
        if !from.exists() {
            // It was moved already.
            continue;
        }
        if to.exists() {
            make_parent(&aside)?;
            remove(&aside)?;
            rename(&to, &aside)?;
        }
        make_parent(&to)?;
        rename(&from, &to)?;
        for dir in [to.parent(), from.parent(), aside.parent().filter(|dir| dir.exists())].into_iter().flatten() {
            sync(dir)?;
        }
    }
    sync(data_dir)?;
    remove(&ready)?;
    remove(&replaced)?;
    sync(data_dir)
}

/// Removes a file or a directory, if there is one.
pub(crate) fn remove(path: &Path) -> Result<(), BackupError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(io_fault(path, "remove")(e)),
        _ => Ok(()),
    }
}

/// Makes a directory and its parents, durably.
pub(crate) fn make_dir(path: &Path) -> Result<(), BackupError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        make_dir(parent)?;
    }
    fs::create_dir(path).map_err(io_fault(path, "make"))?;
    match path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => sync(parent),
        None => sync(Path::new(".")),
    }
}

fn make_parent(path: &Path) -> Result<(), BackupError> {
    path.parent().map_or(Ok(()), make_dir)
}

fn rename(from: &Path, to: &Path) -> Result<(), BackupError> {
    fs::rename(from, to).map_err(io_fault(to, "move a restored directory to"))
}

pub(crate) fn sync(path: &Path) -> Result<(), BackupError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(io_fault(path, "sync"))
}

fn sync_tree(dir: &Path) -> Result<(), BackupError> {
    for entry in fs::read_dir(dir).map_err(io_fault(dir, "read"))? {
        let path = entry.map_err(io_fault(dir, "read"))?.path();
        if path.is_dir() { sync_tree(&path)? } else { sync(&path)? }
    }
    sync(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(dir: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut dirs = vec![dir.to_owned()];
        while let Some(next) = dirs.pop() {
            for path in fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()) {
                match path.is_dir() {
                    true => dirs.push(path),
                    false => found.push(format!(
                        "{}={}",
                        path.strip_prefix(dir).unwrap().display(),
                        fs::read_to_string(&path).unwrap()
                    )),
                }
            }
        }
        found.retain(|line| !line.starts_with("store/lock"));
        found.sort();
        found
    }

    /// A data directory with something in it, and a restore that is ready.
    fn ready() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (root, text) in [("", "old"), (READY, "new")] {
            for name in ["store/store/db", "plugins/demo/x.wasm", "restored/manifest.json"] {
                let path = dir.path().join(root).join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
        fs::write(dir.path().join("plugins/demo/gone.wasm"), "old").unwrap();
        fs::write(dir.path().join("mine"), "mine").unwrap();
        dir
    }

    /// After any number of its moves, whoever comes next completes it.
    #[test]
    fn it_can_be_interrupted_anywhere() {
        let whole = ["mine=mine", "plugins/demo/x.wasm=new", "restored/manifest.json=new", "store/store/db=new"];
        for moves in 0..=6 {
            let dir = ready();
            for (n, name) in MOVES.iter().enumerate() {
                let at = |root: &str| dir.path().join(root).join(name);
                if moves > 2 * n {
                    fs::create_dir_all(at(REPLACED).parent().unwrap()).unwrap();
                    fs::rename(at(""), at(REPLACED)).unwrap();
                }
                if moves > 2 * n + 1 {
                    fs::rename(at(READY), at("")).unwrap();
                }
            }
            assert!(finish_interrupted(dir.path()).unwrap());
            assert_eq!(tree(dir.path()), whole, "after {moves} moves");
            assert!(!finish_interrupted(dir.path()).unwrap());
        }
    }
}
