//! Putting a restored directory into its place.
//!
//! ```text
//! <data_dir>/restore.new/     being made; may be deleted
//! <data_dir>/restore.ready/   whole and durable: the restore is decided, and will be completed
//! <data_dir>/replaced/        the former content, until the restored one is in its place
//! ```
//!
//! Moves put `restore.ready` into place; each checks whether it was made already. Copies into the plugin folder may be
//! repeated. So the work can be interrupted anywhere: the next start of a server, or the next restore, completes it
//! ([`finish_interrupted`]).

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use mortise_durable_fs::{AtomicFile, make_dir, remove, sync, sync_tree};
use mortise_store::Lock;

use crate::error::{BackupError, io_fault};

/// Directory of the store in a data directory.
pub(crate) const STORE_DIR: &str = "store";
/// Directory of the kept components.
pub(crate) const PLUGINS_DIR: &str = "plugins";
/// Directory with the backup's manifest and configuration, for people to read.
pub(crate) const RESTORED_DIR: &str = "restored";
/// Directory of an unfinished restore.
pub(crate) const NEW_DIR: &str = "restore.new";
/// Directory of a complete restore that is to be put into place.
pub(crate) const READY_DIR: &str = "restore.ready";
/// Directory of the former content, until the restored content is in its place.
pub(crate) const REPLACED_DIR: &str = "replaced";
/// Directory of files for the plugin folder, in `restore.new` and `restore.ready`.
pub(crate) const PLUGIN_FILES_DIR: &str = "folder";
/// File with the path of the plugin folder.
pub(crate) const PLUGIN_DIR_FILE: &str = "folder.path";

/// Paths that move from `restore.ready` to the data directory. The store's own directory has the lock in it, which
/// stays.
const MOVED_PATHS: [&str; 3] = ["store/store", PLUGINS_DIR, RESTORED_DIR];

/// Completes an interrupted restore that was decided (`restore.ready` exists), and removes one that was not. Returns
/// whether one was completed. To be called before the store is opened.
///
/// # Errors
/// [`BackupError::Store`] when a process has the store open; faults of the file system.
pub fn finish_interrupted(data_dir: &Path) -> Result<bool, BackupError> {
    let is_there = |name: &str| data_dir.join(name).is_dir();
    if !is_there(READY_DIR) && !is_there(NEW_DIR) {
        return Ok(false);
    }
    // A restore that is running holds it.
    let lock = Lock::take(&data_dir.join(STORE_DIR))?;
    let finished = finish(data_dir)?;
    remove(&data_dir.join(NEW_DIR))?;
    drop(lock);
    Ok(finished)
}

/// [`finish_interrupted`] for a caller that holds the store's lock.
pub(crate) fn finish(data_dir: &Path) -> Result<bool, BackupError> {
    let decided = data_dir.join(READY_DIR).is_dir();
    if decided {
        put(data_dir)?;
    }
    Ok(decided)
}

/// Decides a restore: the complete `restore.new` will replace the data directory's content.
pub(crate) fn decide(data_dir: &Path) -> Result<(), BackupError> {
    sync_tree(&data_dir.join(NEW_DIR))?;
    rename(&data_dir.join(NEW_DIR), &data_dir.join(READY_DIR))?;
    Ok(sync(data_dir)?)
}

/// Moves the restored content into place, and the former content aside. The store must be locked.
pub(crate) fn put(data_dir: &Path) -> Result<(), BackupError> {
    let (ready, replaced) = (data_dir.join(READY_DIR), data_dir.join(REPLACED_DIR));
    for name in MOVED_PATHS {
        let (from, to, aside) = (ready.join(name), data_dir.join(name), replaced.join(name));
        if !from.exists() {
            // Moved already, before an interruption.
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
    put_folder(&ready)?;
    // `ready` goes last: as long as it exists, the next start comes here again and removes both.
    remove(&replaced)?;
    sync(data_dir)?;
    remove(&ready)?;
    Ok(sync(data_dir)?)
}

/// Copies the files of the plugin folder into place, each whole or not at all. Copies, not moves, since the folder may
/// be on another disk; repeating them does no harm.
fn put_folder(ready: &Path) -> Result<(), BackupError> {
    let (from, path) = (ready.join(PLUGIN_FILES_DIR), ready.join(PLUGIN_DIR_FILE));
    if !path.exists() {
        return Ok(());
    }
    let plugin_dir = fs::read(&path).map_err(io_fault(&path, "read"))?;
    let plugin_dir = Path::new(OsStr::from_bytes(&plugin_dir));
    make_dir(plugin_dir)?;
    for entry in fs::read_dir(&from).map_err(io_fault(&from, "read"))? {
        let name = entry.map_err(io_fault(&from, "read"))?.file_name();
        let (source, path) = (from.join(&name), plugin_dir.join(&name));
        let mut part = AtomicFile::new_beside(&path)?;
        let mut content = File::open(&source).map_err(io_fault(&source, "read"))?;
        io::copy(&mut content, &mut part).map_err(io_fault(&path, "write"))?;
        part.sync()?;
        part.replace()?;
    }
    // One sync for all files.
    Ok(sync(plugin_dir)?)
}

fn make_parent(path: &Path) -> Result<(), BackupError> {
    Ok(path.parent().map_or(Ok(()), make_dir)?)
}

fn rename(from: &Path, to: &Path) -> Result<(), BackupError> {
    fs::rename(from, to).map_err(io_fault(to, "move a restored directory to"))
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

    /// A data directory with content, and a restore that is ready.
    fn ready() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (root, text) in [("", "old"), (READY_DIR, "new")] {
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

    /// The next start completes a restore after any number of its moves.
    #[test]
    fn a_restore_can_be_interrupted_anywhere() {
        let whole = ["mine=mine", "plugins/demo/x.wasm=new", "restored/manifest.json=new", "store/store/db=new"];
        for moves in 0..=6 {
            let dir = ready();
            for (n, name) in MOVED_PATHS.iter().enumerate() {
                let path = |root: &str| dir.path().join(root).join(name);
                if moves > 2 * n {
                    fs::create_dir_all(path(REPLACED_DIR).parent().unwrap()).unwrap();
                    fs::rename(path(""), path(REPLACED_DIR)).unwrap();
                }
                if moves > 2 * n + 1 {
                    fs::rename(path(READY_DIR), path("")).unwrap();
                }
            }
            assert!(finish_interrupted(dir.path()).unwrap());
            assert_eq!(tree(dir.path()), whole, "after {moves} moves");
            assert!(!finish_interrupted(dir.path()).unwrap());
        }
    }

    #[test]
    fn an_unfinished_restore_is_removed_unless_it_is_running() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join(NEW_DIR);
        fs::create_dir_all(new.join("store")).unwrap();
        let running = Lock::take(&dir.path().join(STORE_DIR)).unwrap();
        assert!(matches!(finish_interrupted(dir.path()), Err(BackupError::Store(_))));
        assert!(new.exists());
        drop(running);
        assert!(!finish_interrupted(dir.path()).unwrap());
        assert!(!new.exists());
    }
}
