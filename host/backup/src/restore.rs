//! Restoring: makes a data directory and a plugin folder of a backup.
//!
//! The steps: read and check the whole archive; look for obstacles; lock the store; make everything beside the present
//! content, compare it and make it durable; then replace the present content, and the plugin folder's files, in a step
//! that is completed even after an interruption ([`place`](crate::place)). An error before the last step changes
//! nothing.

use std::{
    fs::{self, File},
    io::{self, Read, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use mortise_durable_fs::{AtomicFile, make_dir, remove};
use mortise_store::{Loader, Lock, Record};
use sha2::{Digest as _, Sha256};

use crate::{
    archive::{Archive, ContentReceiver},
    entry,
    error::{BackupError, io_fault},
    manifest::Manifest,
    place::{
        self, NEW_DIR, PLUGIN_DIR_FILE, PLUGIN_FILES_DIR, PLUGINS_DIR, READY_DIR, REPLACED_DIR, RESTORED_DIR, STORE_DIR,
    },
};

/// Names that an empty data directory may contain: leftovers of servers and restores without anything to lose.
const HARMLESS_NAMES: [&str; 7] = ["backups", "cache", "lost+found", RESTORED_DIR, NEW_DIR, READY_DIR, REPLACED_DIR];

/// Destination of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The data directory.
    pub data_dir: PathBuf,
    /// The plugin folder.
    pub plugin_dir: PathBuf,
    /// Whether present content may be replaced.
    pub force: bool,
    /// Whether the store gets the id of the backed-up store instead of a new one.
    pub keep_id: bool,
}

/// Progress of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of records read so far.
    pub records: u64,
}

/// Result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Manifest of the backup.
    pub manifest: Manifest,
    /// Path of the backup's configuration, if it had one. No server reads it there.
    pub config: Option<PathBuf>,
    /// Names of the plugin folder's files that were written.
    pub folder: Vec<String>,
    /// Whether former content was replaced.
    pub replaced: bool,
}

/// Restores an archive. Blocks.
///
/// # Errors
/// [`BackupError::Occupied`], [`BackupError::Nested`]; [`BackupError::Store`], for example when a server has the
/// directory open; faults of the file system.
pub fn restore(
    mut archive: Archive,
    target: &Target,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, BackupError> {
    let Target { data_dir, .. } = target;
    check_plugin_dir(target)?;
    // First, so that a refusal leaves no trace. An interrupted restore is completed below, and checked then.
    if !data_dir.join(READY_DIR).is_dir() {
        check_obstacles(&archive, target)?;
    }
    make_dir(data_dir)?;
    let lock = Lock::take(&data_dir.join(STORE_DIR))?;
    let config = || Some(data_dir.join(RESTORED_DIR).join(entry::CONFIG)).filter(|path| path.exists());
    let folder: Vec<String> = archive.folder().keys().cloned().collect();
    if place::finish(data_dir)? && is_restored(&archive, data_dir) {
        return Ok(Restored { manifest: archive.manifest().clone(), config: config(), folder, replaced: false });
    }
    // Again: another process may have had the lock since the first check.
    let replaced = check_obstacles(&archive, target)?;
    let new = data_dir.join(NEW_DIR);
    let made = make(&mut archive, &new, target, progress).and_then(|()| place::decide(data_dir));
    if let Err(error) = made {
        // An unfinished restore has no value; if this fails, the next restore removes it.
        remove(&new).ok();
        return Err(error);
    }
    place::put(data_dir)?;
    drop(lock);
    Ok(Restored { manifest: archive.manifest().clone(), config: config(), folder, replaced })
}

/// Rejects a plugin folder inside a directory that a restore replaces: its files would be moved aside with the rest.
fn check_plugin_dir(target: &Target) -> Result<(), BackupError> {
    let Target { data_dir, plugin_dir, .. } = target;
    let (data, folder) = (resolve_path(data_dir)?, resolve_path(plugin_dir)?);
    let replaced = [STORE_DIR, PLUGINS_DIR, RESTORED_DIR, NEW_DIR, READY_DIR, REPLACED_DIR];
    match replaced.into_iter().find(|name| folder.starts_with(data.join(name))) {
        None => Ok(()),
        Some(within) => Err(BackupError::Nested { plugin_dir: plugin_dir.clone(), within }),
    }
}

/// Returns the absolute path without links, as far as it exists.
fn resolve_path(path: &Path) -> Result<PathBuf, BackupError> {
    let path = std::path::absolute(path).map_err(io_fault(path, "find"))?;
    let found = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    Ok(match found {
        Some((above, found)) => path.strip_prefix(above).map_or(found.clone(), |rest| found.join(rest)),
        None => path,
    })
}

/// Whether the interrupted restore that was just completed was of this backup.
fn is_restored(archive: &Archive, data_dir: &Path) -> bool {
    let text = fs::read(data_dir.join(RESTORED_DIR).join(entry::MANIFEST)).unwrap_or_default();
    serde_json::from_slice::<Manifest>(&text).is_ok_and(|found| found == *archive.manifest())
}

/// Refuses to replace content without `force`; returns whether the restore will replace anything.
fn check_obstacles(archive: &Archive, target: &Target) -> Result<bool, BackupError> {
    let Target { data_dir, plugin_dir, force, .. } = target;
    let obstacle = find_obstacle(data_dir, plugin_dir)?;
    let differing = differing(archive, plugin_dir)?;
    if !force {
        if let Some(obstacle) = obstacle {
            return Err(obstacle);
        }
        if let Some(file) = differing.first() {
            let what = "the plugin folder has a different file of that name".to_owned();
            return Err(BackupError::Occupied { path: plugin_dir.join(file), what });
        }
    }
    Ok(obstacle.is_some() || !differing.is_empty())
}

/// Returns the obstacle for a restore, if there is one.
pub(crate) fn find_obstacle(data_dir: &Path, plugin_dir: &Path) -> Result<Option<BackupError>, BackupError> {
    let obstacle = |path: &Path, what: &str| BackupError::Occupied { path: path.to_owned(), what: what.to_owned() };
    let entries = match fs::read_dir(data_dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io_fault(data_dir, "read")(e)),
    };
    if data_dir.join(STORE_DIR).join(STORE_DIR).exists() {
        return Ok(Some(obstacle(data_dir, "it holds a store already")));
    }
    for entry in entries {
        let entry = entry.map_err(io_fault(data_dir, "read"))?;
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        let harmless = HARMLESS_NAMES.contains(&&*name)
            || path == *plugin_dir
            || (name == STORE_DIR && only_lock(&path))
            || (name == PLUGINS_DIR && is_empty(&path));
        if !harmless {
            return Ok(Some(obstacle(data_dir, &format!("it is not empty, {name} is in it"))));
        }
    }
    Ok(None)
}

fn only_lock(dir: &Path) -> bool {
    let known = |name: &std::ffi::OsStr| name == "lock" || name == "store.new";
    fs::read_dir(dir).is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(|entry| known(&entry.file_name()))))
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// Returns the names of files that differ between plugin folder and backup.
fn differing(archive: &Archive, plugin_dir: &Path) -> Result<Vec<String>, BackupError> {
    let mut found = Vec::new();
    for (name, digest) in archive.folder() {
        let path = plugin_dir.join(name);
        match File::open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(io_fault(&path, "read")(e)),
            Ok(mut file) => {
                let mut hasher = Sha256::new();
                let mut buffer = vec![0; 1 << 16];
                loop {
                    let read = file.read(&mut buffer).map_err(io_fault(&path, "read"))?;
                    if read == 0 {
                        break;
                    }
                    hasher.update(buffer.get(..read).unwrap_or_default());
                }
                let hex: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
                if hex != *digest {
                    found.push(name.clone());
                }
            }
        }
    }
    Ok(found)
}

/// Makes the complete restore in `new`.
fn make(
    archive: &mut Archive,
    new: &Path,
    target: &Target,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), BackupError> {
    let store = target.data_dir.join(STORE_DIR);
    remove(new)?;
    for dir in [PLUGINS_DIR, RESTORED_DIR, PLUGIN_FILES_DIR] {
        make_dir(&new.join(dir))?;
    }
    if !archive.folder().is_empty() {
        let plugin_dir = std::path::absolute(&target.plugin_dir).map_err(io_fault(&target.plugin_dir, "find"))?;
        // Finds out now, not after the decision, whether the folder accepts files.
        make_dir(&plugin_dir)?;
        drop(AtomicFile::new_beside(&plugin_dir.join("plugin.wasm"))?);
        write(&new.join(PLUGIN_DIR_FILE), &mut plugin_dir.as_os_str().as_bytes())?;
    }
    let text = serde_json::to_vec_pretty(archive.manifest()).unwrap_or_default();
    write(&new.join(RESTORED_DIR).join(entry::MANIFEST), &mut text.as_slice())?;
    let mut loader = Loader::create(&new.join(STORE_DIR), archive.manifest().head())?;
    if target.keep_id {
        let id = archive.manifest().store_id.as_ref().and_then(|id| id.parse().ok());
        loader = loader.with_id(id.ok_or_else(|| BackupError::NoId { path: archive.path().to_owned() })?);
    }
    let mut maker = RestoreWriter { new, loader, progress, records: 0 };
    archive.read(&mut maker)?;
    maker.loader.finish().map_err(|error| match error {
        mortise_store::StoreError::BadRecord { record, fault } => {
            BackupError::Malformed { path: store.clone(), entry: record, what: fault }
        }
        other => other.into(),
    })
}

struct RestoreWriter<'m> {
    new: &'m Path,
    loader: Loader,
    progress: &'m mut dyn FnMut(Progress),
    records: u64,
}

impl ContentReceiver for RestoreWriter<'_> {
    fn record(&mut self, record: Record) -> Result<(), BackupError> {
        self.loader.add(&record)?;
        self.records += 1;
        (self.progress)(Progress { records: self.records });
        Ok(())
    }

    fn kept(&mut self, plugin: &str, file: &str, content: &mut dyn Read) -> Result<(), BackupError> {
        let dir = self.new.join(PLUGINS_DIR).join(plugin);
        make_dir(&dir)?;
        write(&dir.join(file), content)
    }

    fn folder(&mut self, file: &str, content: &mut dyn Read) -> Result<(), BackupError> {
        write(&self.new.join(PLUGIN_FILES_DIR).join(file), content)
    }

    fn config(&mut self, content: &mut dyn Read) -> Result<(), BackupError> {
        write(&self.new.join(RESTORED_DIR).join(entry::CONFIG), content)
    }
}

/// Writes a file. Not durable.
pub(crate) fn write(path: &Path, content: &mut dyn Read) -> Result<(), BackupError> {
    let mut file = File::create(path).map_err(io_fault(path, "write"))?;
    io::copy(content, &mut file).and_then(|_| file.flush()).map_err(io_fault(path, "write"))
}
