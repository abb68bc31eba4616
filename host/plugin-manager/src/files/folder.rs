//! The plugin folder: its files, their changes, and their contents.
//!
//! Symbolic links are followed: the target file counts, so that a switched link is a change. A link that leads nowhere
//! is an unreadable file, not a removed one: it does not take a plugin out of service.

use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata},
    io::{self, Read as _, Write as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
    sync::Arc,
};

use mortise_durable_fs::{AtomicFile, FsError, make_dir};
use mortise_keys::signature::{FileError, read_signature, signature_path};
use mortise_plugin_host::LoadError;
use sha2::{Digest as _, Sha256};

/// The text of the signature of a component; `None` without one.
pub(crate) type OfferedSignature = Result<Option<Vec<u8>>, Arc<FileError>>;

/// Most files of the folder that are examined; the caller ignores those that sort after them, with a warning.
pub const MAX_FILES: usize = 1_024;

/// Metadata of a file and of the signature beside it. Any change of content changes the stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    file: FileStamp,
    signature: Option<FileStamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    is_file: bool,
}

impl FileStamp {
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

    /// Follows links; for a link that leads nowhere, the metadata of the link itself.
    fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).or_else(|_| fs::symlink_metadata(path)).ok().map(|metadata| Self::of(&metadata))
    }
}

impl Stamp {
    /// The stamp of a file by itself, links followed; of the link itself if it leads nowhere; `None` if the path does
    /// not exist.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        FileStamp::at(path).map(|file| Self { file, signature: None })
    }

    /// The stamp of a plugin's file and its signature.
    #[must_use]
    pub fn of_plugin(path: &Path) -> Option<Self> {
        FileStamp::at(path).map(|file| Self { file, signature: FileStamp::at(&signature_path(path)) })
    }
}

/// The content of a plugin's file.
#[derive(Debug)]
pub(crate) struct PluginContent {
    pub(crate) bytes: Vec<u8>,
    pub(crate) signature: OfferedSignature,
    /// Stamp after the read.
    pub(crate) stamp: Stamp,
}

/// The name of a signature's file.
#[must_use]
pub(crate) fn signature_name(file: &str) -> String {
    signature_path(file.as_ref()).to_string_lossy().into_owned()
}

/// The first [`MAX_FILES`] `*.wasm` of a folder by file name, and one more if there are more. A missing folder counts
/// as empty.
///
/// # Errors
/// The folder cannot be read.
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
        if let Some(stamp) = Stamp::of_plugin(&path) {
            found.insert(name.to_owned(), stamp);
        }
        // The first names, and one more as the sign that there are others.
        if found.len() > MAX_FILES + 1 {
            found.pop_last();
        }
    }
    Ok(found)
}

/// Reads a file.
///
/// # Errors
/// [`LoadError::Unreadable`], and [`LoadError::TooLarge`] before anything is read.
pub fn read(path: &Path, limit: usize) -> Result<Vec<u8>, LoadError> {
    read_file(path, limit).map(|(bytes, _)| bytes)
}

/// Reads a plugin's file, and its signature.
///
/// # Errors
/// The errors of [`read`]. The error of an unreadable signature is part of the content.
pub(crate) fn read_plugin(path: &Path, limit: usize) -> Result<PluginContent, LoadError> {
    let (bytes, file) = read_file(path, limit)?;
    let stamp = FileStamp::at(&signature_path(path));
    let signature = read_signature(path).map_err(Arc::new);
    Ok(PluginContent { bytes, signature, stamp: Stamp { file, signature: stamp } })
}

fn read_file(path: &Path, limit: usize) -> Result<(Vec<u8>, FileStamp), LoadError> {
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
    // One byte more than allowed shows that the file grew over the limit meanwhile.
    (&file).take(limit as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > limit {
        return Err(LoadError::TooLarge { size: bytes.len(), limit });
    }
    let look = FileStamp::of(&file.metadata().map_err(unreadable)?);
    Ok((bytes, look))
}

/// SHA-256 in hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Writes a file into a directory so that it exists whole or not at all, even after a loss of power: a temporary file,
/// synced, renamed, the directory synced. Makes a missing directory.
///
/// # Errors
/// The error of the file system.
pub fn write_durably(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = dir.join(name);
    let write = || {
        make_dir(dir)?;
        let mut file = AtomicFile::new_beside(&path)?;
        file.write_all(bytes).map_err(FsError::with_path(&path, "write"))?;
        file.replace_durably()
    };
    // Callers add the file's name to the error.
    write().map_err(|error| error.source)
}

/// Removes a file from a directory durably. Succeeds if it does not exist.
///
/// # Errors
/// The error of the file system.
pub fn remove_file(dir: &Path, name: &str) -> io::Result<()> {
    match fs::remove_file(dir.join(name)) {
        Ok(()) => File::open(dir)?.sync_all(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// Writes a plugin's file into a directory, its signature first. Removes the files that are `None`.
///
/// # Errors
/// The errors of [`write_durably`] and [`remove_file`].
pub(crate) fn put_plugin(dir: &Path, name: &str, bytes: Option<&[u8]>, signature: Option<&[u8]>) -> io::Result<()> {
    for (name, bytes) in [(&*signature_name(name), signature), (name, bytes)] {
        match bytes {
            Some(bytes) => write_durably(dir, name, bytes)?,
            None => remove_file(dir, name)?,
        }
    }
    Ok(())
}

/// The content of a plugin's file and its signature before they were replaced; `None` for a missing file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FormerContent {
    bytes: Option<Vec<u8>>,
    signature: Option<Vec<u8>>,
}

impl FormerContent {
    /// Reads both. `None` when one exists and cannot be read, or is too large.
    pub(crate) fn read(path: &Path, limit: usize) -> Option<Self> {
        let bytes = match FileStamp::at(path) {
            Some(_) => Some(read(path, limit).ok()?),
            None => None,
        };
        Some(Self { bytes, signature: read_signature(path).ok()? })
    }

    /// Restores both in a directory.
    ///
    /// # Errors
    /// The errors of [`put_plugin`].
    pub(crate) fn put_back(&self, dir: &Path, name: &str) -> io::Result<()> {
        put_plugin(dir, name, self.bytes.as_deref(), self.signature.as_deref())
    }
}

/// A name for the resource of a file without a known plugin name: the file's stem, changed to fit the rule for names.
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
        write_durably(dir.path(), "other", b"1").unwrap();
        fs::rename(dir.path().join("other"), &real).unwrap();
        assert_ne!(scan(dir.path()).unwrap()["link.wasm"], first);
        assert_eq!(read(&link, 1).unwrap(), b"1");
        assert!(matches!(read(&link, 0), Err(LoadError::TooLarge { size: 1, limit: 0 })));
        assert!(scan(&dir.path().join("nowhere")).unwrap().is_empty());
    }

    #[test]
    fn a_signature_that_comes_and_goes_is_a_change_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        write_durably(dir.path(), "a.wasm", b"1").unwrap();
        let stamp = || scan(dir.path()).unwrap()["a.wasm"];
        let path = dir.path().join("a.wasm");
        let unsigned = stamp();
        write_durably(dir.path(), &signature_name("a.wasm"), b"s").unwrap();
        let signed = stamp();
        assert_ne!(signed, unsigned);
        let content = read_plugin(&path, 1).unwrap();
        assert_eq!((content.signature.unwrap().as_deref(), content.stamp), (Some(&b"s"[..]), signed));
        write_durably(dir.path(), "a.wasm.minisig", b"t").unwrap();
        assert_ne!(stamp(), signed);
        write_durably(dir.path(), "a.wasm.minisig", &[b'x'; mortise_keys::signature::MAX_BYTES + 1]).unwrap();
        assert!(read_plugin(&path, 1).unwrap().signature.unwrap_err().to_string().contains("more than 16384 bytes"));
        remove_file(dir.path(), "a.wasm.minisig").unwrap();
        assert_eq!((stamp(), read_plugin(&path, 1).unwrap().signature.unwrap()), (unsigned, None));
    }

    #[test]
    fn what_was_replaced_is_put_back() {
        let (dir, name) = (tempfile::tempdir().unwrap(), "a.wasm");
        let (dir, path) = (dir.path(), dir.path().join(name));
        for (bytes, signature) in
            [(None, None), (None, Some(&b"s"[..])), (Some(&b"old"[..]), Some(b"s")), (Some(b"old"), None)]
        {
            put_plugin(dir, name, bytes, signature).unwrap();
            let former = FormerContent::read(&path, 3).unwrap();
            put_plugin(dir, name, Some(b"new"), Some(b"new")).unwrap();
            former.put_back(dir, name).unwrap();
            assert_eq!(fs::read(&path).ok().as_deref(), bytes);
            assert_eq!(read_signature(&path).unwrap().as_deref(), signature);
        }
        assert_eq!(FormerContent::read(&path, 2), None, "the file is over the limit");
    }
}
