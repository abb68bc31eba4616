//! Files of keys and certificates.

use std::{
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use mortise_durable_fs::{AtomicFile, FsError, make_dir};

use crate::CliError;

/// A file to write.
pub(super) struct NewFile {
    pub(super) path: PathBuf,
    pub(super) content: Vec<u8>,
    /// Permissions; 0600 for keys.
    pub(super) mode: u32,
}

impl NewFile {
    /// Writes the file. Without `replace`, an existing one is an error.
    pub(super) fn write(&self, replace: bool) -> Result<(), CliError> {
        let Self { path, content, mode } = self;
        let write = || {
            let mut file = AtomicFile::new_beside(path)?;
            file.write_all(content).map_err(FsError::with_path(path, "write"))?;
            let mode = std::fs::Permissions::from_mode(*mode);
            file.file().set_permissions(mode).map_err(FsError::with_path(path, "write"))?;
            if replace { file.replace_durably() } else { file.create_durably() }
        };
        write().map_err(CliError::fs)
    }
}

/// Makes a directory with those above it, if they are missing. Others may not write into the new ones.
pub(super) fn make_directory(dir: &Path) -> Result<(), CliError> {
    let missing: Vec<_> = dir.ancestors().take_while(|dir| !dir.is_dir()).collect();
    if !missing.is_empty() {
        make_dir(dir).map_err(CliError::fs)?;
    }
    for dir in missing {
        forbid_others_to_write(dir).map_err(|e| CliError::file("cannot set the mode of", dir, e))?;
    }
    Ok(())
}

/// Takes the permission to write from group and others, who could exchange the keys in the directory.
fn forbid_others_to_write(dir: &Path) -> std::io::Result<()> {
    let mode = std::fs::metadata(dir)?.permissions().mode();
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode & !0o022))
}
