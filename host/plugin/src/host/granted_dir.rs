//! Files of one directory, by plain names, for plugins: nothing outside of it can be reached.
//!
//! # Contract
//! Names have no separators and are neither `.` nor `..`; everything is opened relative to the directory, without
//! following links, and only regular files are read. A file is written under a temporary name, synced and renamed, and
//! then the directory is synced: readers see the old content or the new, also after a loss of power. Writers of one
//! directory take turns, those of other processes too (`flock` on the directory, where the file system has it).
//! Temporary files that a crash left are hidden, and removed when the same name is written again.
//!
//! # Cost
//! Every call waits for the disk, so it belongs on threads that may wait.
//!
//! # Limits
//! Content and lists are bounded by the caller, and so is the size of a directory after a write ([`DirQuota`]): every
//! file in it counts, even one from another writer, and each write looks at all of them. A writer waits for its turn
//! until the caller's deadline.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use mortise_resource::Code;
use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags},
    io::Errno,
};
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;

/// Prefix of files that are not in their place yet.
pub(super) const TEMPORARY_PREFIX: &str = ".mortise-tmp-";

/// Longest name, bytes: the limit of common file systems.
const MAX_NAME: usize = 255;

/// Interval at which a writer checks whether it is its turn.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Largest size of a directory after a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirQuota {
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// Number of files.
    pub(crate) files: u64,
}

/// An open directory.
pub(crate) struct GrantedDir(OwnedFd);

impl GrantedDir {
    /// Opens a directory. Links on the way to it are the operator's, and are followed.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
    }

    /// Content of a file; `None` if it does not exist.
    pub(crate) fn read(&self, name: &str, limit: usize) -> Result<Option<Vec<u8>>, Failure> {
        check_name(name)?;
        // Non-blocking: opening a pipe would wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.0, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NXIO) => return Err(not_a_file(name)),
            Err(e) => return Err(failed("reading", name, e.into())),
        };
        let metadata = file.metadata().map_err(|e| failed("reading", name, e))?;
        if !metadata.is_file() {
            return Err(not_a_file(name));
        }
        let mut content = Vec::new();
        file.take(limit as u64 + 1).read_to_end(&mut content).map_err(|e| failed("reading", name, e))?;
        if content.len() > limit {
            let text = format!("file {name:?} has more than {limit} bytes (limit sandbox.reply_bytes)");
            return Err(Failure::new(Code::ResourceExhausted, text));
        }
        Ok(Some(content))
    }

    /// Puts a whole file in place. An existing file keeps its mode; a new one has 0644, less the mask that the server
    /// was started with. `verify` has to accept the content first; meanwhile no other writer changes the directory.
    pub(crate) fn write(
        &self,
        name: &str,
        content: &[u8],
        quota: DirQuota,
        until: Instant,
        verify: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        check_name(name)?;
        let failed = |e: io::Error| failed("writing", name, e);
        self.take_turn(name, until)?;
        let mode = match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) if FileType::from_raw_mode(there.st_mode).is_file() => {
                Some(Mode::from_raw_mode(there.st_mode & 0o777))
            }
            Ok(_) => return Err(not_a_file(name)),
            Err(Errno::NOENT) => None,
            Err(e) => return Err(failed(e.into())),
        };
        self.admit(name, content.len() as u64, quota)?;
        verify()?;
        let temporary = temporary(name);
        // Left by a crash: writers take turns.
        match rustix::fs::unlinkat(&self.0, &temporary, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(failed(e.into())),
        }
        let placed = self.write_and_rename(&temporary, name, content, mode);
        if placed.is_err() {
            // Best effort: the next writer of this name tries again.
            let _ = rustix::fs::unlinkat(&self.0, &temporary, AtFlags::empty());
        }
        placed.map_err(failed)
    }

    /// Checks whether a file of this size fits. Temporary files count too: they take room.
    fn admit(&self, name: &str, size: u64, quota: DirQuota) -> Result<(), Failure> {
        let (mut bytes, mut files) = (size, 1_u64);
        let replaced = temporary(name);
        for entry in Dir::read_from(&self.0).map_err(|e| failed("writing", name, e.into()))? {
            let entry = entry.map_err(|e| failed("writing", name, e.into()))?;
            let other = entry.file_name();
            if other.to_bytes() == name.as_bytes() || other.to_bytes() == replaced.as_bytes() {
                continue;
            }
            // A file that was removed meanwhile takes no room.
            let Ok(found) = rustix::fs::statat(&self.0, other, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(found.st_mode).is_file() {
                bytes = bytes.saturating_add(found.st_size.unsigned_abs());
                files += 1;
            }
        }
        let text = if bytes > quota.bytes {
            format!(
                "file {name:?}: the directory would hold {bytes} bytes, more than its limit of {} (`bytes` in its \
                 grant); remove files, or raise the limit",
                quota.bytes
            )
        } else if files > quota.files {
            format!(
                "file {name:?}: the directory would hold {files} files, more than the limit of {}; remove some",
                quota.files
            )
        } else {
            return Ok(());
        };
        Err(Failure::new(Code::ResourceExhausted, text))
    }

    fn write_and_rename(&self, temporary: &str, name: &str, content: &[u8], mode: Option<Mode>) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, temporary, flags, Mode::from_raw_mode(0o644))?;
        // The server's own files are private; this one is for another program.
        if let Some(mode) = mode.or_else(|| mortise_durable_fs::public_mode(0o644).map(Mode::from_raw_mode)) {
            rustix::fs::fchmod(&file, mode)?;
        }
        let mut file = File::from(file);
        file.write_all(content)?;
        file.sync_all()?;
        rustix::fs::renameat(&self.0, temporary, &self.0, name)?;
        Ok(rustix::fs::fsync(&self.0)?)
    }

    /// Removes a file, if it exists. A link itself is removed, not its target.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Failure> {
        check_name(name)?;
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) => rustix::fs::fsync(&self.0).map_err(|e| failed("removing", name, e.into())),
            Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR) => Err(not_a_file(name)),
            Err(e) => Err(failed("removing", name, e.into())),
        }
    }

    /// Names of the regular files, in order; names that are not UTF-8 are left out.
    pub(crate) fn list(&self, limit: usize) -> Result<Vec<String>, Failure> {
        let failed = |e: Errno| Failure::new(Code::Internal, format!("listing failed: {}", io::Error::from(e)));
        let (mut names, mut bytes) = (Vec::new(), 0_usize);
        for entry in Dir::read_from(&self.0).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name.starts_with(TEMPORARY_PREFIX) || !self.is_file(name, entry.file_type()) {
                continue;
            }
            // An item of a list takes eight bytes beyond its content.
            bytes += name.len() + 8;
            if bytes > limit {
                let text = format!("the list of files takes more than {limit} bytes (limit sandbox.reply_bytes)");
                return Err(Failure::new(Code::ResourceExhausted, text));
            }
            names.push(name.to_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Whether an entry is a regular file. Some file systems do not list the type.
    fn is_file(&self, name: &str, listed: FileType) -> bool {
        match listed {
            FileType::Unknown => rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_file()),
            known => known.is_file(),
        }
    }

    /// Waits until no other writer works in this directory. The turn ends with the directory's descriptor.
    fn take_turn(&self, name: &str, until: Instant) -> Result<(), Failure> {
        loop {
            match rustix::fs::flock(&self.0, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => {
                    #[allow(clippy::disallowed_methods, reason = "on a thread that may wait")]
                    thread::sleep(LOCK_POLL_INTERVAL);
                }
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    let text = format!("file {name:?}: another writer is working in the directory; try again later");
                    return Err(Failure::new(Code::Unavailable, text));
                }
                // On a file system without locks, writers of other processes cannot be detected.
                Ok(()) | Err(_) => return Ok(()),
            }
        }
    }
}

/// Name of a file until it is in place: a different one for each name, and never too long.
fn temporary(name: &str) -> String {
    let hash = Sha256::digest(name.as_bytes());
    hash.iter().take(16).fold(TEMPORARY_PREFIX.to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

fn check_name(name: &str) -> Result<(), Failure> {
    let fault = if name.is_empty() || name.len() > MAX_NAME {
        format!("it must have 1 to {MAX_NAME} bytes")
    } else if name.contains(['/', '\0']) || name == "." || name == ".." {
        "it must be plain: no separators, and not \".\" or \"..\"".to_owned()
    } else if name.starts_with(TEMPORARY_PREFIX) {
        format!("names that begin with {TEMPORARY_PREFIX:?} are reserved for the host")
    } else {
        return Ok(());
    };
    Err(Failure::new(Code::InvalidArgument, format!("{name:?} is not a file name: {fault}")))
}

fn not_a_file(name: &str) -> Failure {
    let text =
        format!("{name:?} is not a regular file; links are not followed, and only files can be read and written");
    Failure::new(Code::FailedPrecondition, text)
}

fn failed(doing: &str, name: &str, error: io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::IsADirectory => {
            Code::FailedPrecondition
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Code::ResourceExhausted
        }
        _ => Code::Internal,
    };
    Failure::new(code, format!("{doing} file {name:?} failed: {error}"))
}

#[cfg(test)]
mod tests;
