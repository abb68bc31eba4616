//! The files of a server beside its store: components of plugins, and the configuration.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use crate::{
    entry::{self, Entry},
    error::{BackupError, io_fault},
};

/// Most files of one directory: as many components as the plugin manager loads, and a signature for each.
const MAX_FILES: usize = 2048;

/// An open file. Its content cannot change: new plugin files come by rename.
#[derive(Debug)]
pub struct Source {
    pub(crate) entry: Entry,
    pub(crate) file: File,
    pub(crate) bytes: u64,
}

/// The open files.
#[derive(Debug, Default)]
pub struct Sources {
    pub(crate) files: Vec<Source>,
}

impl Sources {
    /// Opens all files: the kept components (`<dir>/<plugin>/<sha256>.wasm`), the plugin folder's `*.wasm`, their
    /// signatures (`*.wasm.minisig`), and the configuration's file, if given. Blocks.
    ///
    /// # Errors
    /// [`BackupError::Io`] for a file that exists and cannot be read, [`BackupError::TooManyFiles`]: a backup without
    /// them would be incomplete.
    pub fn open(kept: &Path, folder: &Path, config: Option<&Path>) -> Result<Self, BackupError> {
        let mut sources = Self::default();
        if let Some(config) = config {
            sources.add(config, Entry::Config)?;
        }
        for plugin in names(kept, entry::is_file)? {
            let dir = kept.join(&plugin);
            if !dir.is_dir() {
                continue;
            }
            for file in names(&dir, entry::is_plugin_file)? {
                sources.add(&dir.join(&file), Entry::Kept { plugin: plugin.clone(), file })?;
            }
        }
        for file in names(folder, entry::is_plugin_file)? {
            sources.add(&folder.join(&file), Entry::Folder { file })?;
        }
        Ok(sources)
    }

    fn add(&mut self, path: &Path, entry: Entry) -> Result<(), BackupError> {
        let file = match File::open(path) {
            Ok(file) => file,
            // A dangling link, or a file just removed: a server could not load it either.
            Err(e) if e.kind() == io::ErrorKind::NotFound && entry != Entry::Config => {
                tracing::warn!(path = %path.display(), "not in the backup: {e}");
                return Ok(());
            }
            Err(e) => return Err(io_fault(path, "open for the backup")(e)),
        };
        let metadata = file.metadata().map_err(io_fault(path, "read metadata for the backup"))?;
        // A file larger than any signature is not one, and a restore would reject it.
        let is_one = !matches!(&entry, Entry::Kept { file, .. } | Entry::Folder { file } if entry::is_signature(file))
            || metadata.len() <= entry.max_bytes();
        if metadata.is_file() && is_one {
            self.files.push(Source { entry, file, bytes: metadata.len() });
        }
        Ok(())
    }
}

/// Returns the matching names in a directory, in order. A missing directory counts as empty.
fn names(dir: &Path, fits: fn(&str) -> bool) -> Result<Vec<String>, BackupError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(io_fault(dir, "read for the backup")(e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(io_fault(dir, "read for the backup"))?.file_name();
        found.extend(name.into_string().ok().filter(|name| fits(name)));
        if found.len() > MAX_FILES {
            return Err(BackupError::TooManyFiles { dir: dir.to_owned(), limit: MAX_FILES });
        }
    }
    found.sort();
    Ok(found)
}
