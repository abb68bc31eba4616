//! Files and directories that exist whole or not at all, even after a loss of power.
//!
//! # Contract
//! - *Atomic*: at any moment a path shows the old content or the new one. A rename on one file system gives that.
//! - *Durable*: when a function returns, its effect survives a loss of power. A sync of the file before the rename and
//!   a sync of the directory after it give that.
//!
//! The doc of each function says which of the two it gives. [`AtomicFile`] writes under a random name, readable by the
//! owner alone; [`replace_through`] writes under a name that the caller chooses, so that a crash leaves no more than
//! one unfinished file.
//!
//! A process that calls [`keep_private`] makes files and directories for its own user alone.
//!
//! Links are followed, except that a rename replaces a link at its target and a removal removes the link itself. This
//! crate is therefore not for a plugin's granted directory, in which no link may be followed: the plugin host opens
//! paths relative to that directory.
//!
//! # Cost and limits
//! A durable operation waits for the disk, once for the file and once for each directory that it changes: milliseconds
//! on most disks. All functions block. A killed process may leave a file `.mortise-….part` of an [`AtomicFile`] in the
//! directory that it wrote into; this crate never removes it. Trees are walked by recursion.
//!
//! The crate `tempfile` makes and renames the unfinished file. It does not sync and makes no directories; this crate
//! does.

mod private;

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

pub use private::{keep_private, make_private_dir, public_mode, tighten};

/// An error of the file system.
#[derive(Debug, thiserror::Error)]
#[error("{}: {action}: {source}", path.display())]
pub struct FsError {
    /// The file or directory.
    pub path: PathBuf,
    /// Attempted action, as a verb: `sync`, `write into`.
    pub action: &'static str,
    /// Error of the file system.
    pub source: io::Error,
}

impl FsError {
    /// Adds path and action to an I/O error, for `map_err`.
    pub fn with_path(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self { path, action, source }
    }
}

/// Returns the directory of a path: its parent, or the current directory for a bare name.
#[must_use]
pub fn parent_dir(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns device and inode of the file behind a path; follows links. It asks for no times, unlike [`fs::metadata`]:
/// after a look at the times of a file, Linux from 6.13 on gives the next write a finer time, and each such change of
/// the inode goes through the file system's journal. A write with its sync then takes a quarter more of the processor.
///
/// # Errors
/// Faults of the file system.
pub fn identity(path: &Path) -> io::Result<(u64, u64)> {
    #[cfg(target_os = "linux")]
    {
        use rustix::{
            fs::{AtFlags, CWD, StatxFlags, makedev, statx},
            io::Errno,
        };
        match statx(CWD, path, AtFlags::empty(), StatxFlags::INO) {
            // Old kernels, and containers that filter system calls.
            Err(Errno::NOSYS | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
            Ok(found) => return Ok((makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino)),
        }
    }
    fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Makes the content of a file durable, or the entries of a directory.
///
/// # Errors
/// Faults of the file system.
pub fn sync(path: &Path) -> Result<(), FsError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(FsError::with_path(path, "sync"))
}

/// Makes a directory and everything in it durable. Syncs each directory after its entries. Follows links; a circle of
/// links is an error.
///
/// # Errors
/// Faults of the file system.
pub fn sync_tree(dir: &Path) -> Result<(), FsError> {
    for entry in fs::read_dir(dir).map_err(FsError::with_path(dir, "read"))? {
        let path = entry.map_err(FsError::with_path(dir, "read"))?.path();
        if path.is_dir() { sync_tree(&path)? } else { sync(&path)? }
    }
    sync(dir)
}

/// Makes a directory and its parents, durably. Succeeds if it exists, also when another process makes it meanwhile.
///
/// # Errors
/// Faults of the file system.
pub fn make_dir(path: &Path) -> Result<(), FsError> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = parent_dir(path);
    make_dir(parent)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made.map_err(FsError::with_path(path, "make"))?,
    }
    sync(parent)
}

/// Removes a file, or a directory with everything in it. Succeeds if the path does not exist. Not durable by itself.
///
/// # Errors
/// Faults of the file system.
pub fn remove(path: &Path) -> Result<(), FsError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FsError::with_path(path, "remove")(error)),
        _ => Ok(()),
    }
}

/// Replaces a file through another name in its directory, atomically and durably. The next call writes over an
/// unfinished file that a crash left under that name. The file has the mode that the process gives to new files.
///
/// # Errors
/// Faults of the file system; the path may then have the old content or the new one.
pub fn replace_through(unfinished: &Path, path: &Path, content: &[u8]) -> Result<(), FsError> {
    let write = || {
        let mut file = File::create(unfinished)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(unfinished, path)
    };
    write().map_err(FsError::with_path(path, "write"))?;
    sync(parent_dir(path))
}

/// An unfinished file beside its target path, readable by this user only (mode 0600). Dropping it removes it.
#[derive(Debug)]
pub struct AtomicFile {
    part: NamedTempFile,
    path: PathBuf,
}

impl AtomicFile {
    /// Makes an empty file for `path`, in the same directory, under a unique name.
    ///
    /// # Errors
    /// The directory does not exist or accepts no files: the error names the directory, and the action `write into`.
    pub fn new_beside(path: &Path) -> Result<Self, FsError> {
        let dir = parent_dir(path);
        let made = tempfile::Builder::new().prefix(".mortise-").suffix(".part").tempfile_in(dir);
        let part = made.map_err(|error| {
            // tempfile's error shows the random name; the error of reading the directory says more.
            let source = fs::read_dir(dir).err().unwrap_or_else(|| error.kind().into());
            FsError::with_path(dir, "write into")(source)
        })?;
        Ok(Self { part, path: path.to_owned() })
    }

    /// Returns the file, for writing.
    pub fn file(&mut self) -> &mut File {
        self.part.as_file_mut()
    }

    /// Puts the file in its place and replaces a present file: atomic, not durable.
    ///
    /// # Errors
    /// Faults of the file system.
    pub fn replace(self) -> Result<(), FsError> {
        let placed = self.part.persist(&self.path);
        placed.map(drop).map_err(|error| FsError::with_path(&self.path, "write")(error.error))
    }

    /// Puts the file in its place unless the path exists: atomic, not durable.
    ///
    /// # Errors
    /// Faults of the file system, [`io::ErrorKind::AlreadyExists`] among them.
    pub fn create(self) -> Result<(), FsError> {
        let placed = self.part.persist_noclobber(&self.path);
        placed.map(drop).map_err(|error| FsError::with_path(&self.path, "write")(error.error))
    }

    /// Makes the content durable; to be called before the file is put in its place. A later [`sync`] of the directory
    /// makes the name durable, and may serve several files.
    ///
    /// # Errors
    /// Faults of the file system.
    pub fn sync(&self) -> Result<(), FsError> {
        self.part.as_file().sync_all().map_err(FsError::with_path(&self.path, "sync"))
    }

    /// [`AtomicFile::replace`], durably.
    ///
    /// # Errors
    /// Faults of the file system; the path may then have the old content or the new one.
    pub fn replace_durably(self) -> Result<(), FsError> {
        self.sync()?;
        let path = self.path.clone();
        self.replace()?;
        sync(parent_dir(&path))
    }

    /// [`AtomicFile::create`], durably.
    ///
    /// # Errors
    /// Those of [`AtomicFile::create`]; after a failed sync of the directory, the file is in its place.
    pub fn create_durably(self) -> Result<(), FsError> {
        self.sync()?;
        let path = self.path.clone();
        self.create()?;
        sync(parent_dir(&path))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.part.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.part.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_identity_of_a_path_is_that_of_its_metadata_and_a_missing_one_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "x").unwrap();
        symlink(&file, &link).unwrap();
        let found = fs::metadata(&file).unwrap();
        for path in [&file, &link] {
            assert_eq!(identity(path).unwrap(), (found.dev(), found.ino()));
        }
        assert_ne!(identity(dir.path()).unwrap().1, found.ino());
        assert_eq!(identity(&dir.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(identity(&file.join("below")).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn directories_are_made_with_their_parents_and_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/c");
        make_dir(&path).unwrap();
        make_dir(&path).unwrap();
        fs::write(path.join("file"), "x").unwrap();
        sync_tree(dir.path()).unwrap();
        let error = make_dir(&path.join("file/d")).unwrap_err();
        assert_eq!((error.path.as_path(), error.action), (path.join("file").as_path(), "make"));
    }

    #[test]
    fn a_file_is_replaced_or_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let written = |text: &str| {
            let mut file = AtomicFile::new_beside(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file
        };
        written("one").create_durably().unwrap();
        assert_eq!(written("two").create().unwrap_err().source.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        written("three").replace_durably().unwrap();
        drop(written("four"));
        assert_eq!(
            (fs::read_to_string(&path).unwrap().as_str(), names(dir.path())),
            ("three", vec!["file".to_owned()])
        );
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_link_at_the_target_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::write(&target, "target").unwrap();
        symlink(&target, &link).unwrap();
        let mut file = AtomicFile::new_beside(&link).unwrap();
        file.write_all(b"new").unwrap();
        file.replace().unwrap();
        assert_eq!((fs::read(&target).unwrap(), fs::read(&link).unwrap()), (b"target".to_vec(), b"new".to_vec()));
    }

    #[test]
    fn an_unfinished_file_of_a_crash_is_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let (path, unfinished) = (dir.path().join("format"), dir.path().join("format.new"));
        fs::write(&unfinished, "longer than what follows").unwrap();
        replace_through(&unfinished, &path, b"2\n").unwrap();
        assert_eq!((fs::read(&path).unwrap(), names(dir.path())), (b"2\n".to_vec(), vec!["format".to_owned()]));
    }

    #[test]
    fn errors_name_the_directory_and_keep_the_cause() {
        let dir = tempfile::tempdir().unwrap();
        let error = AtomicFile::new_beside(&dir.path().join("none/file")).unwrap_err();
        assert_eq!(error.path, dir.path().join("none"));
        assert!(error.to_string().contains("write into: No such file or directory"), "{error}");
        remove(&dir.path().join("none")).unwrap();
    }
}
