//! Restoring: a data directory and a plugin folder made of a backup.
//!
//! In this order: the whole archive is read and found good; what is in the way is looked for; the store is locked; everything
//! is made beside what is there, compared and made durable; the files of the plugin folder are put into place; and then the
//! new takes the place of the old, in a step that is completed also when it is interrupted ([`place`](crate::place)).
//! Whatever fails before the files of the plugin folder leaves everything as it was.

use std::{
    fs::{self, File},
    io::{self, Read, Write as _},
    path::{Path, PathBuf},
};

use mortise_store::{Loader, Lock, Record};
use sha2::{Digest as _, Sha256};

use crate::{
    archive::{Archive, Contents},
    entry,
    error::{BackupError, io_fault},
    manifest::Manifest,
    place::{self, NEW, PLUGINS, READY, REPLACED, RESTORED, STORE},
};

/// What may be in a directory that counts as empty: what a server or a restore left that has nothing to lose.
const NOTHING: [&str; 6] = ["cache", "lost+found", RESTORED, NEW, READY, REPLACED];

/// Where a backup goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The data directory.
    pub data_dir: PathBuf,
    /// The plugin folder.
    pub plugin_dir: PathBuf,
    /// Whether what is there may be replaced.
    pub force: bool,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Records that were read.
    pub records: u64,
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What the backup says of itself.
    pub manifest: Manifest,
    /// Where its configuration is now, if it had one. It is not in use there.
    pub config: Option<PathBuf>,
    /// Files of the plugin folder that were written.
    pub folder: Vec<String>,
    /// Whether something was replaced.
    pub replaced: bool,
}

/// Restores an archive. Blocks.
///
/// # Errors
/// [`BackupError::Occupied`]; [`BackupError::Store`], such as when a server has the directory; faults of the file system.
pub fn restore(
    mut archive: Archive,
    target: &Target,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, BackupError> {
    let Target { data_dir, plugin_dir, force } = target;
    // What was decided before counts: it is done first, so that it is seen as what is there.
    place::finish_interrupted(data_dir)?;
    let occupied = occupied(data_dir, plugin_dir)?;
    let differing = differing(&archive, plugin_dir)?;
    if !force {
        if let Some(occupied) = occupied {
            return Err(occupied);
        }
        if let Some(file) = differing.first() {
            let what = "the plugin folder has another file of that name".to_owned();
            return Err(BackupError::Occupied { path: plugin_dir.join(file), what });
        }
    }
    place::make_dir(data_dir)?;
    let lock = Lock::take(&data_dir.join(STORE))?;
    let new = data_dir.join(NEW);
    let made = make(&mut archive, &new, &data_dir.join(STORE), progress);
    let config = match made {
        Ok(config) => config,
        Err(error) => {
            // It is worth nothing; if it cannot be removed, the next restore will.
            place::remove(&new).ok();
            return Err(error);
        }
    };
    let folder = put_folder(&new, plugin_dir)?;
    place::decide(data_dir)?;
    place::put(data_dir)?;
    drop(lock);
    Ok(Restored {
        manifest: archive.manifest().clone(),
        config: config.then(|| data_dir.join(RESTORED).join(entry::CONFIG)),
        folder,
        replaced: occupied.is_some() || !differing.is_empty(),
    })
}

/// What stands in the way of a restore, if something does.
fn occupied(data_dir: &Path, plugin_dir: &Path) -> Result<Option<BackupError>, BackupError> {
    let in_the_way = |path: &Path, what: &str| BackupError::Occupied { path: path.to_owned(), what: what.to_owned() };
    let entries = match fs::read_dir(data_dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io_fault(data_dir, "read")(e)),
    };
    if data_dir.join(STORE).join(STORE).exists() {
        return Ok(Some(in_the_way(data_dir, "it holds a store already")));
    }
    for entry in entries {
        let entry = entry.map_err(io_fault(data_dir, "read"))?;
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        let harmless = NOTHING.contains(&&*name)
            || path == *plugin_dir
            || (name == STORE && only_lock(&path))
            || (name == PLUGINS && is_empty(&path));
        if !harmless {
            return Ok(Some(in_the_way(data_dir, &format!("it is not empty, {name} is in it"))));
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

/// Files that the plugin folder has with other content than the backup has.
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

/// Makes everything in `new`. Answers whether there was a configuration.
fn make(
    archive: &mut Archive,
    new: &Path,
    store: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<bool, BackupError> {
    place::remove(new)?;
    for dir in [PLUGINS, RESTORED, "folder"] {
        place::make_dir(&new.join(dir))?;
    }
    let text = serde_json::to_vec_pretty(archive.manifest()).unwrap_or_default();
    write(&new.join(RESTORED).join(entry::MANIFEST), &mut text.as_slice())?;
    let loader = Loader::create(&new.join(STORE), archive.manifest().head())?;
    let mut maker = Maker { new, loader, progress, records: 0, config: false };
    archive.read(&mut maker)?;
    let Maker { loader, config, .. } = maker;
    loader.finish().map_err(|error| match error {
        mortise_store::StoreError::BadRecord { record, fault } => {
            BackupError::Malformed { path: store.to_owned(), entry: record, what: fault }
        }
        other => other.into(),
    })?;
    Ok(config)
}

/// Puts the files of the plugin folder into place, each whole or not at all.
fn put_folder(new: &Path, plugin_dir: &Path) -> Result<Vec<String>, BackupError> {
    let from = new.join("folder");
    let mut written = Vec::new();
    for entry in fs::read_dir(&from).map_err(io_fault(&from, "read"))? {
        let name = entry.map_err(io_fault(&from, "read"))?.file_name().to_string_lossy().into_owned();
        place::make_dir(plugin_dir)?;
        let (source, path) = (from.join(&name), plugin_dir.join(&name));
        let part = tempfile::Builder::new().prefix(".mortise-").suffix(".part").tempfile_in(plugin_dir);
        let mut part = part.map_err(io_fault(plugin_dir, "write into"))?;
        let mut content = File::open(&source).map_err(io_fault(&source, "read"))?;
        io::copy(&mut content, &mut part).map_err(io_fault(&path, "write"))?;
        part.as_file().sync_all().map_err(io_fault(&path, "sync"))?;
        part.persist(&path).map_err(|e| io_fault(&path, "write")(e.error))?;
        written.push(name);
    }
    if !written.is_empty() {
        place::sync(plugin_dir)?;
    }
    place::remove(&from)?;
    written.sort();
    Ok(written)
}

struct Maker<'m> {
    new: &'m Path,
    loader: Loader,
    progress: &'m mut dyn FnMut(Progress),
    records: u64,
    config: bool,
}

impl Contents for Maker<'_> {
    fn record(&mut self, record: Record) -> Result<(), BackupError> {
        self.loader.add(&record)?;
        self.records += 1;
        (self.progress)(Progress { records: self.records });
        Ok(())
    }

    fn kept(&mut self, plugin: &str, file: &str, content: &mut dyn Read) -> Result<(), BackupError> {
        let dir = self.new.join(PLUGINS).join(plugin);
        place::make_dir(&dir)?;
        write(&dir.join(file), content)
    }

    fn folder(&mut self, file: &str, content: &mut dyn Read) -> Result<(), BackupError> {
        write(&self.new.join("folder").join(file), content)
    }

    fn config(&mut self, content: &mut dyn Read) -> Result<(), BackupError> {
        self.config = true;
        write(&self.new.join(RESTORED).join(entry::CONFIG), content)
    }
}

fn write(path: &Path, content: &mut dyn Read) -> Result<(), BackupError> {
    let mut file = File::create(path).map_err(io_fault(path, "write"))?;
    io::copy(content, &mut file).and_then(|_| file.flush()).map_err(io_fault(path, "write"))
}
