//! The plugin folder: which files there are, whether they changed, and what they hold.
//!
//! Symbolic links are followed: what counts is the file that is reached in the end, so that a switched link is a
//! change. One that leads nowhere is a file that cannot be read, not one that was removed: a plugin is not taken out of
//! service by it.

use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata},
    io::{self, Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use mortise_durable_fs::{AtomicFile, FsError, make_dir};
use mortise_plugin_host::LoadError;
use sha2::{Digest as _, Sha256};

/// Most files of the folder that are looked at; those that sort after them are left out, with a warning.
pub const MAX_FILES: usize = 1_024;

/// What a file looks like from outside. Any change of content changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    is_file: bool,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            is_file: metadata.is_file(),
        }
    }

    /// Of a file, links followed; of the link itself when it leads nowhere; none when there is nothing.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).or_else(|_| fs::symlink_metadata(path)).ok().map(|metadata| Self::of(&metadata))
    }
}

/// Every `*.wasm` of a folder by file name. A folder that does not exist is an empty one.
///
/// # Errors
/// When the folder cannot be read.
pub fn scan(dir: &Path) -> io::Result<BTreeMap<String, Stamp>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(e) => return Err(e),
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        let is_plugin = path.extension().is_some_and(|ext| ext == "wasm");
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| is_plugin) else { continue };
        if let Some(stamp) = Stamp::at(&path) {
            found.insert(name.to_owned(), stamp);
        }
    }
    if found.len() > MAX_FILES {
        tracing::warn!(dir = %dir.display(), "more than {MAX_FILES} files in the plugin folder; the rest is left out");
        found = found.into_iter().take(MAX_FILES).collect();
    }
    Ok(found)
}

/// A file's content, and what the file looked like when all of it had been read.
///
/// # Errors
/// [`LoadError::Unreadable`], and [`LoadError::TooLarge`] before anything is read.
pub fn read(path: &Path, limit: usize) -> Result<(Vec<u8>, Stamp), LoadError> {
    let unreadable = |source| LoadError::Unreadable { path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        let what = "not a file; a plugin is one .wasm file";
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, what)));
    }
    let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    if size > limit {
        return Err(LoadError::TooLarge { size, limit });
    }
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::with_capacity(size);
    // One byte more than allowed is enough to know that it grew over the limit meanwhile.
    (&file).take(limit as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > limit {
        return Err(LoadError::TooLarge { size: bytes.len(), limit });
    }
    let stamp = Stamp::of(&file.metadata().map_err(unreadable)?);
    Ok((bytes, stamp))
}

/// SHA-256 in hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Puts a file into a directory so that it is there whole or not at all, also after a loss of power: a temporary file,
/// synced, renamed, the directory synced. The directory is made when missing.
///
/// # Errors
/// Whatever the file system says.
pub fn put(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = dir.join(name);
    let write = || {
        make_dir(dir)?;
        let mut file = AtomicFile::beside(&path)?;
        file.write_all(bytes).map_err(FsError::at(&path, "write"))?;
        file.replace_durably()
    };
    // Callers name the file.
    write().map_err(|error| error.source)
}

/// Takes a file out of a directory, durably. One that is not there is fine.
///
/// # Errors
/// Whatever the file system says.
pub fn take_out(dir: &Path, name: &str) -> io::Result<()> {
    match fs::remove_file(dir.join(name)) {
        Ok(()) => File::open(dir)?.sync_all(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// A name for the resource of a file that does not say its own: the file's stem, made to fit the rule for names.
#[must_use]
pub fn resource_name(file: &str) -> String {
    let stem = file.strip_suffix(".wasm").unwrap_or(file).to_lowercase();
    let fits = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let name: String = stem.chars().map(fits).take(48).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "unnamed".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_the_rule() {
        for (file, name) in [
            ("demo.wasm", "demo"),
            ("My Plugin_2.wasm", "my-plugin-2"),
            ("..wasm", "unnamed"),
            ("-é-.wasm", "unnamed"),
            ("a.b.wasm", "a-b"),
        ] {
            assert_eq!(resource_name(file), name);
        }
        let long = resource_name(&format!("{}.wasm", "x".repeat(200)));
        assert!(mortise_resource::name::is_valid(&long));
    }

    #[test]
    fn links_are_followed_and_dangling_ones_are_unreadable() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link.wasm"));
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(scan(dir.path()).unwrap().len(), 1);
        assert!(matches!(read(&link, 1), Err(LoadError::Unreadable { .. })));
        fs::write(&real, "1").unwrap();
        let first = scan(dir.path()).unwrap()["link.wasm"];
        put(dir.path(), "other", b"1").unwrap();
        fs::rename(dir.path().join("other"), &real).unwrap();
        assert_ne!(scan(dir.path()).unwrap()["link.wasm"], first);
        assert_eq!(read(&link, 1).unwrap().0, b"1");
        assert!(matches!(read(&link, 0), Err(LoadError::TooLarge { size: 1, limit: 0 })));
        assert!(scan(&dir.path().join("nowhere")).unwrap().is_empty());
    }
}
