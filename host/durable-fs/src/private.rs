//! Files for the user of this process alone: directories with mode 0700, files with mode 0600.
//!
//! [`keep_private`] sets the mask of the process (umask), since libraries make files as well, and some of them take no
//! mode. [`public_mode`] applies the former mask, for files that other programs read.

use std::{
    fs::{self, DirBuilder, File, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::Path,
    sync::OnceLock,
};

use rustix::{
    fs::{Mode, OFlags},
    process::umask,
};

use crate::FsError;

/// Permissions of group and others.
const OTHERS: u32 = 0o077;

/// Bit of directories in which everyone may make files, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// The mask of the process before [`keep_private`].
static FORMER_MASK: OnceLock<u32> = OnceLock::new();

/// Gives every new file and directory of this process to its user alone, with any mask of its start. To be called
/// before there are threads. Programs that the process starts inherit the mask.
pub fn keep_private() {
    let former = umask(Mode::from_raw_mode(OTHERS));
    FORMER_MASK.get_or_init(|| former.as_raw_mode());
}

/// Makes a directory and its missing parents for this user alone (mode 0700), with any mask. Not durable. An
/// existing directory stays as it is.
///
/// # Errors
/// Faults of the file system.
pub fn make_private_dir(path: &Path) -> Result<(), FsError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path).map_err(FsError::with_path(path, "make the directory"))
}

/// Returns the mode that a new file for other programs gets with the mask that the process was started with; `None`
/// without [`keep_private`], where the system applies the mask.
#[must_use]
pub fn public_mode(mode: u32) -> Option<u32> {
    FORMER_MASK.get().map(|mask| mode & !mask)
}

/// Takes the permissions of group and others from a directory, and from the named entries with everything in them.
/// Returns the number of changed files and directories. Follows no links; leaves sockets as they are, and a directory
/// in which everyone may make files. A missing path counts as private.
///
/// # Errors
/// Faults of the file system: the first one, after all others were tried.
pub fn tighten(dir: &Path, entries: &[&str]) -> Result<usize, FsError> {
    let mut tightened = Tightened::default();
    if tightened.change(dir) {
        for entry in entries {
            tightened.tree(&dir.join(entry));
        }
    }
    tightened.fault.map_or(Ok(tightened.changed), Err)
}

/// The changes so far, and the first fault.
#[derive(Default)]
struct Tightened {
    changed: usize,
    fault: Option<FsError>,
}

impl Tightened {
    fn tree(&mut self, path: &Path) {
        if !self.change(path) {
            return;
        }
        match fs::read_dir(path) {
            // An entry that cannot be read is behind a directory of mode 0700 by now.
            Ok(entries) => entries.flatten().for_each(|entry| self.tree(&entry.path())),
            Err(error) => self.note(path, "read", error),
        }
    }

    /// Tightens one path. Returns whether it is a directory.
    fn change(&mut self, path: &Path) -> bool {
        match tighten_one(path) {
            Ok((is_dir, is_changed)) => {
                self.changed += usize::from(is_changed);
                is_dir
            }
            Err(error) => {
                self.note(path, "make private", error);
                false
            }
        }
    }

    fn note(&mut self, path: &Path, action: &'static str, error: io::Error) {
        if error.kind() != io::ErrorKind::NotFound {
            self.fault.get_or_insert_with(|| FsError::with_path(path, action)(error));
        }
    }
}

/// Tightens one path. Returns whether it is a directory, and whether its mode was changed.
fn tighten_one(path: &Path) -> io::Result<(bool, bool)> {
    let found = fs::symlink_metadata(path)?;
    let (mode, is_dir) = (found.permissions().mode(), found.is_dir());
    if !(is_dir || found.is_file()) || mode & OTHERS == 0 || mode & STICKY != 0 {
        return Ok((is_dir, false));
    }
    // Through an open file, so that a link that takes its place is not followed.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    file.set_permissions(Permissions::from_mode(mode & 0o700))?;
    Ok((is_dir, true))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn named_entries_are_tightened_and_others_and_targets_of_links_are_left() {
        let outer = tempfile::tempdir().unwrap();
        let (dir, elsewhere) = (outer.path().join("data"), outer.path().join("elsewhere"));
        fs::create_dir_all(dir.join("store/deep")).unwrap();
        for file in [dir.join("store/deep/db"), dir.join("token"), dir.join("mine"), elsewhere.clone()] {
            fs::write(&file, "x").unwrap();
            set(&file, 0o644);
        }
        symlink(&elsewhere, dir.join("store/link")).unwrap();
        for dir in [&*dir, &dir.join("store"), &dir.join("store/deep")] {
            set(dir, 0o755);
        }
        assert_eq!(tighten(&dir, &["store", "token", "missing"]).unwrap(), 5);
        assert_eq!((mode(&dir), mode(&dir.join("store/deep"))), (0o700, 0o700));
        assert_eq!((mode(&dir.join("store/deep/db")), mode(&dir.join("token"))), (0o600, 0o600));
        assert_eq!((mode(&dir.join("mine")), mode(&elsewhere)), (0o644, 0o644));
        assert_eq!(tighten(&dir, &["store", "token"]).unwrap(), 0);
        assert_eq!(tighten(&outer.path().join("missing"), &["store"]).unwrap(), 0);
    }

    #[test]
    fn a_directory_for_everyone_is_left_and_its_named_entries_are_not() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("tmp");
        fs::create_dir_all(dir.join("store")).unwrap();
        set(&dir, 0o1777);
        set(&dir.join("store"), 0o755);
        assert_eq!(tighten(&dir, &["store"]).unwrap(), 1);
        assert_eq!((mode(&dir), mode(&dir.join("store"))), (0o1777, 0o700));
    }
}
