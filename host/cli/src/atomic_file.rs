//! Files that exist whole or not at all: written under another name in the same directory, then renamed.

use std::{fs, io, path::Path};

use tempfile::NamedTempFile;

use crate::error::CliError;

/// Creates a temporary file in the directory of `place`, and answers both. The file is removed when it is dropped.
///
/// # Errors
/// The directory is none, or cannot be written into.
pub(crate) fn create(place: &Path) -> Result<(NamedTempFile, &Path), CliError> {
    let dir = place.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |e: io::Error| CliError::file("cannot write into", dir, e);
    fs::read_dir(dir).map_err(failed)?;
    // The message of `tempfile` has the temporary name in it, which means nothing to a user.
    let made = tempfile::Builder::new().prefix(".mortise-").suffix(".part").tempfile_in(dir);
    Ok((made.map_err(|e| failed(e.kind().into()))?, dir))
}
