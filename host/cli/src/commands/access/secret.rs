//! Secrets: made here, shown once, kept in files that only their owner reads.

use std::{io::Write as _, path::Path};

use mortise_durable_fs::{AtomicFile, FsError};
use sha2::{Digest as _, Sha256};

use crate::CliError;

/// A secret of 256 random bits, as it is given to servers.
pub(super) struct Secret(String);

impl Secret {
    /// Makes one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn random() -> Result<Self, CliError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|e| CliError::failed("no random numbers for a secret").caused_by(e))?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Its hash, which is all that a server keeps.
    pub(super) fn sha256(&self) -> Vec<u8> {
        Sha256::digest(self.0.as_bytes()).to_vec()
    }

    /// The secret, to be shown.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// Writes it into a file that only its owner reads, and that is not in its place yet.
    ///
    /// # Errors
    /// Faults of the file system.
    pub(super) fn prepare(&self, path: &Path) -> Result<AtomicFile, CliError> {
        prepare(path, &self.0).map_err(CliError::fs)
    }
}

/// Writes a secret into a file that only its owner reads.
///
/// # Errors
/// Faults of the file system.
pub(super) fn write(path: &Path, secret: &str) -> Result<(), CliError> {
    prepare(path, secret).and_then(AtomicFile::replace_durably).map_err(CliError::fs)
}

fn prepare(path: &Path, secret: &str) -> Result<AtomicFile, FsError> {
    // Temporary files are their owner's alone, and keep that when they take their place.
    let mut file = AtomicFile::beside(path)?;
    file.write_all(format!("{secret}\n").as_bytes()).map_err(FsError::at(path, "write"))?;
    Ok(file)
}
