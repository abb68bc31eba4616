//! Secrets: made here, shown once, kept in files that only their owner reads.

use std::{io::Write as _, path::Path};

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

    /// Writes the secret into a temporary file that only its owner can read; the caller moves it to `path`.
    ///
    /// # Errors
    /// Faults of the file system.
    pub(super) fn prepare(&self, path: &Path) -> Result<AtomicFile, CliError> {
        prepare(path, &self.0).map_err(CliError::fs)
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
