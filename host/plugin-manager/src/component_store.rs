//! Copies of loaded components in the data directory: of the serving and of the previous one.
//!
//! A copy is `<data_dir>/plugins/<plugin>/<sha256>.wasm`, with its signature as `<sha256>.wasm.minisig` if it came with
//! one by a trusted key. A rollback needs the copies; so do types with stored resources after their plugin's file is
//! gone, and a start with a broken file in the folder. A file with content that does not match its name counts as
//! missing.

use std::{fs, io, path::PathBuf};

use mortise_keys::signature::read_signature;

use crate::{
    files::folder,
    load::{
        request::LoadRequest,
        stage::{Failure, Stage},
    },
    trust::TrustDecision,
};

/// The directory of copies.
#[derive(Debug, Clone)]
pub(crate) struct ComponentStore {
    dir: PathBuf,
}

impl ComponentStore {
    /// Uses a directory; the first copy creates it.
    #[must_use]
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Keeps a component durably, with its signature. Replaces a damaged copy.
    ///
    /// # Errors
    /// The error of the file system.
    pub(crate) fn keep(&self, plugin: &str, digest: &str, bytes: &[u8], signature: Option<&[u8]>) -> io::Result<()> {
        if let Some(signature) = signature.filter(|bytes| self.signature(plugin, digest).as_deref() != Some(*bytes)) {
            let name = folder::signature_name(&format!("{digest}.wasm"));
            folder::write_durably(&self.dir.join(plugin), &name, signature)?;
        }
        if self.get(plugin, digest).is_ok() {
            return Ok(());
        }
        folder::write_durably(&self.dir.join(plugin), &format!("{digest}.wasm"), bytes)
    }

    /// Calls [`ComponentStore::keep`] on a thread that may wait for the disk.
    ///
    /// # Errors
    /// `HostFault`.
    pub(crate) async fn keep_in_background(
        &self,
        plugin: &str,
        request: &LoadRequest,
        decision: &TrustDecision,
    ) -> Result<(), Failure> {
        let (store, plugin, digest) = (self.clone(), plugin.to_owned(), request.digest.clone());
        let (bytes, signature) = (request.bytes.clone(), decision.signature().map(<[u8]>::to_vec));
        let kept =
            tokio::task::spawn_blocking(move || store.keep(&plugin, &digest, &bytes, signature.as_deref())).await;
        let fault = |e: io::Error| {
            Failure::new(
                Stage::Checking,
                "HostFault",
                format!("a copy of the component cannot be kept in data_dir: {e}"),
            )
        };
        kept.map_err(io::Error::other).and_then(|kept| kept).map_err(fault)
    }

    /// Whether a copy of a component exists, damaged or not.
    #[must_use]
    pub(crate) fn has(&self, plugin: &str, digest: &str) -> bool {
        self.path(plugin, digest).exists()
    }

    fn path(&self, plugin: &str, digest: &str) -> PathBuf {
        self.dir.join(plugin).join(format!("{digest}.wasm"))
    }

    /// The kept signature of a component.
    #[must_use]
    pub(crate) fn signature(&self, plugin: &str, digest: &str) -> Option<Vec<u8>> {
        let path = self.path(plugin, digest);
        read_signature(&path)
            .inspect_err(|e| tracing::warn!(plugin, "a kept signature cannot be read and is ignored: {e}"))
            .ok()
            .flatten()
    }

    /// A kept component.
    ///
    /// # Errors
    /// `NotFound`; `InvalidData` when the copy is damaged; other errors of the file system.
    pub(crate) fn get(&self, plugin: &str, digest: &str) -> io::Result<Vec<u8>> {
        let path = self.path(plugin, digest);
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let bytes = fs::read(&path).map_err(named)?;
        if folder::digest(&bytes) == digest {
            return Ok(bytes);
        }
        Err(named(io::Error::new(io::ErrorKind::InvalidData, "its content does not match its name")))
    }

    /// Removes every component of a plugin except those of some digests.
    pub(crate) fn prune(&self, plugin: &str, keep: &[&str]) {
        let Ok(entries) = fs::read_dir(self.dir.join(plugin)) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().and_then(|name| name.to_str());
            let kept = name.and_then(|name| name.split('.').next()).is_some_and(|digest| keep.contains(&digest));
            if !kept && let Err(e) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), "an old component cannot be removed: {e}");
            }
        }
    }

    /// Removes all components of a plugin.
    pub(crate) fn forget(&self, plugin: &str) {
        match fs::remove_dir_all(self.dir.join(plugin)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(plugin, "the components of a removed plugin cannot be removed: {e}");
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
        components.keep("p", &a, b"a", Some(&b"signature of a"[..])).unwrap();
        components.keep("p", &b, b"b", None).unwrap();
        assert_eq!(components.get("p", &a).unwrap(), b"a");
        assert_eq!(components.signature("p", &a).as_deref(), Some(&b"signature of a"[..]));
        assert_eq!(components.signature("p", &b), None);
        components.prune("p", &[&b]);
        assert_eq!(components.signature("p", &a), None, "it goes with its component");
        assert_eq!(components.get("p", &a).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(dir.path().join("plugins/p").join(format!("{b}.wasm")), "x").unwrap();
        assert_eq!(components.get("p", &b).unwrap_err().kind(), io::ErrorKind::InvalidData);
        components.keep("p", &b, b"b", Some(&b"signature of b"[..])).unwrap();
        assert_eq!(components.get("p", &b).unwrap(), b"b", "a damaged copy of the same length is replaced");
        components.prune("p", &[&b]);
        assert_eq!(components.signature("p", &b).as_deref(), Some(&b"signature of b"[..]));
        components.forget("p");
        components.forget("p");
        assert!(!dir.path().join("plugins/p").exists());
    }
}
