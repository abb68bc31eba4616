//! Files that are there whole or not at all: written under another name beside their place, then renamed.

use std::{fs, io, path::Path};

use tempfile::NamedTempFile;

use crate::error::CliError;

/// A file in the making beside the place that it is for, and their directory. It goes when it is dropped.
///
/// # Errors
/// The directory is none, or cannot be written into.
pub(crate) fn create(place: &Path) -> Result<(NamedTempFile, &Path), CliError> {
    let dir = place.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |e: &io::Error| CliError::file("cannot write into", dir, e);
    fs::read_dir(dir).map_err(|e| failed(&e))?;
    // What the maker of the name says holds the name, which nobody chose.
    let made = tempfile::Builder::new().prefix(".mortise-").suffix(".part").tempfile_in(dir);
    Ok((made.map_err(|e| failed(&e.kind().into()))?, dir))
}
