//! Detects changes of files by `stat`. Links are followed: certbot and Kubernetes put new files in place by switching a
//! link.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::TlsOptions;

/// Device, inode, length, and the times of content and inode.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

/// Stamps of certificate, key and client authorities; `None` for a file that is absent or not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamps([Option<Stamp>; 3]);

impl Stamps {
    /// Reads the stamps. Blocks.
    pub(super) fn of(options: &TlsOptions) -> Self {
        Self::of_files([Some(&options.cert_file), Some(&options.key_file), options.client_ca_file.as_ref()])
    }

    /// Reads the stamps of files. Blocks.
    pub(crate) fn of_files(files: [Option<&PathBuf>; 3]) -> Self {
        Self(files.map(|file| file.and_then(|file| stamp(file))))
    }

    #[cfg(test)]
    pub(super) fn numbered(number: u64) -> Self {
        Self([Some((number, 0, 0, 0, 0, 0, 0)), None, None])
    }
}

fn stamp(file: &Path) -> Option<Stamp> {
    let stamp = |m: Metadata| (m.dev(), m.ino(), m.len(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec());
    std::fs::metadata(file).ok().map(stamp)
}
