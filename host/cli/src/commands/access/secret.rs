//! Secrets: made here, shown once, kept in files that only their owner reads.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use mortise_durable_fs::{AtomicFile, FsError};
use sha2::{Digest as _, Sha256};

use crate::CliError;

/// Secret of 256 random bits, in the form that servers take.
pub(super) struct Secret(String);

impl Secret {
    /// Makes a random secret.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub(super) fn random() -> Result<Self, CliError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|e| CliError::failed("no random numbers for a secret").caused_by(e))?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// SHA-256 of the secret; a server stores nothing else of it.
    pub(super) fn sha256(&self) -> Vec<u8> {
        Sha256::digest(self.0.as_bytes()).to_vec()
    }

    /// The secret, to be shown.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// Keeps the secret in a file beside `path`, `PATH.new`, that only its owner can read, until [`KeptSecret::adopt`].
    ///
    /// # Errors
    /// The file exists; it may hold a secret that is in use. Faults of the file system.
    pub(super) fn keep(&self, path: &Path) -> Result<KeptSecret, CliError> {
        let mut kept = path.as_os_str().to_owned();
        kept.push(".new");
        let kept = PathBuf::from(kept);
        if kept.symlink_metadata().is_ok() {
            let what = format!("{} exists, and may hold the secret of an earlier command", kept.display());
            return Err(CliError::usage(what).remedy("try the token in it, then move or remove the file"));
        }
        write(&kept, &self.0)?;
        Ok(KeptSecret { kept, path: path.to_owned() })
    }
}

/// A secret in a file beside the one that it is meant for. It survives the end of the command, so that no stored token
/// is without its secret.
pub(super) struct KeptSecret {
    kept: PathBuf,
    path: PathBuf,
}

impl KeptSecret {
    /// Moves the secret to its place, once the server has it.
    ///
    /// # Errors
    /// Faults of the file system; the secret is then still beside its place.
    pub(super) fn adopt(self) -> Result<(), CliError> {
        let moved = std::fs::rename(&self.kept, &self.path).map_err(FsError::with_path(&self.path, "rename a file to"));
        let synced = moved.and_then(|()| mortise_durable_fs::sync(mortise_durable_fs::parent_dir(&self.path)));
        synced.map_err(|error| CliError::fs(error).detail(format!("the secret is in {}", self.kept.display())))
    }

    /// Removes the secret, which the server refused.
    pub(super) fn discard(self) {
        // A file that stays holds a void secret.
        let _ = std::fs::remove_file(&self.kept);
    }

    /// Path of the file with the secret, until it is adopted.
    pub(super) fn kept_in(&self) -> &Path {
        &self.kept
    }
}

/// Writes a secret into a file that only its owner can read.
///
/// # Errors
/// Faults of the file system.
pub(super) fn write(path: &Path, secret: &str) -> Result<(), CliError> {
    prepare(path, secret).and_then(AtomicFile::replace_durably).map_err(CliError::fs)
}

fn prepare(path: &Path, secret: &str) -> Result<AtomicFile, FsError> {
    // Temporary files are readable by their owner alone, and stay so after the rename.
    let mut file = AtomicFile::new_beside(path)?;
    file.write_all(format!("{secret}\n").as_bytes()).map_err(FsError::with_path(path, "write"))?;
    Ok(file)
}
