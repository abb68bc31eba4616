//! Components that were loaded, kept in the data directory: what serves and what served before.
//!
//! `<data_dir>/plugins/<plugin>/<sha256>.wasm`. A rollback needs them; so do types whose plugin's file is gone while
//! something of them is stored, and a start with a broken file in the folder. A file whose content is not what its name
//! says is as good as none.

use std::{fs, io, path::PathBuf};

use crate::{
    files::folder,
    load::stage::{Failure, Stage},
};

/// The directory.
#[derive(Debug, Clone)]
pub(crate) struct ComponentStore {
    dir: PathBuf,
}

impl ComponentStore {
    /// In a directory that is made when something is kept.
    #[must_use]
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Keeps a component, durably. A copy that is damaged is replaced.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub(crate) fn keep(&self, plugin: &str, digest: &str, bytes: &[u8]) -> io::Result<()> {
        if self.get(plugin, digest).is_ok() {
            return Ok(());
        }
        folder::put(&self.dir.join(plugin), &format!("{digest}.wasm"), bytes)
    }

    /// [`ComponentStore::keep`] on a thread that may wait for the disk.
    ///
    /// # Errors
    /// `HostFault`.
    pub(crate) async fn keep_in_background(&self, plugin: &str, digest: &str, bytes: &[u8]) -> Result<(), Failure> {
        let (store, plugin, digest, bytes) = (self.clone(), plugin.to_owned(), digest.to_owned(), bytes.to_vec());
        let kept = tokio::task::spawn_blocking(move || store.keep(&plugin, &digest, &bytes)).await;
        let fault =
            |e: io::Error| Failure::new(Stage::Checking, "HostFault", format!("keeping a copy in data_dir: {e}"));
        kept.map_err(io::Error::other).and_then(|kept| kept).map_err(fault)
    }

    /// Whether there is a copy of a component, damaged or not.
    #[must_use]
    pub(crate) fn has(&self, plugin: &str, digest: &str) -> bool {
        self.path(plugin, digest).exists()
    }

    fn path(&self, plugin: &str, digest: &str) -> PathBuf {
        self.dir.join(plugin).join(format!("{digest}.wasm"))
    }

    /// A component that was kept.
    ///
    /// # Errors
    /// `NotFound`; `InvalidData` when the content is not what was kept; whatever else the file system says.
    pub(crate) fn get(&self, plugin: &str, digest: &str) -> io::Result<Vec<u8>> {
        let path = self.path(plugin, digest);
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let bytes = fs::read(&path).map_err(named)?;
        if folder::digest(&bytes) == digest {
            return Ok(bytes);
        }
        Err(named(io::Error::new(io::ErrorKind::InvalidData, "its content is not what its name says")))
    }

    /// Drops every component of a plugin but those of some digests.
    pub(crate) fn prune(&self, plugin: &str, keep: &[&str]) {
        let Ok(entries) = fs::read_dir(self.dir.join(plugin)) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let kept = path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| keep.contains(&stem));
            if !kept && let Err(e) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), "an old component is not removed: {e}");
            }
        }
    }

    /// Drops a plugin.
    pub(crate) fn forget(&self, plugin: &str) {
        match fs::remove_dir_all(self.dir.join(plugin)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(plugin, "the components of a plugin that is gone are not removed: {e}");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_until_it_is_pruned() {
        let dir = tempfile::tempdir().unwrap();
        let components = ComponentStore::new(dir.path().join("plugins"));
        let (a, b) = (folder::digest(b"a"), folder::digest(b"b"));
        components.keep("p", &a, b"a").unwrap();
        components.keep("p", &b, b"b").unwrap();
        assert_eq!(components.get("p", &a).unwrap(), b"a");
        components.prune("p", &[&b]);
        assert_eq!(components.get("p", &a).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(dir.path().join("plugins/p").join(format!("{b}.wasm")), "x").unwrap();
        assert_eq!(components.get("p", &b).unwrap_err().kind(), io::ErrorKind::InvalidData);
        components.keep("p", &b, b"b").unwrap();
        assert_eq!(components.get("p", &b).unwrap(), b"b", "a damaged copy of the same length is replaced");
        components.forget("p");
        components.forget("p");
        assert!(!dir.path().join("plugins/p").exists());
    }
}
