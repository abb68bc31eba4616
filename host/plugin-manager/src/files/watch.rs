//! Watches folders by notifications of the system. The system may miss changes, or cannot watch (a folder that does not
//! exist yet, a file system without notifications, a link to elsewhere); so the caller also scans from time to time.
//!
//! Only names that matter wake the caller ([`NamesOfInterest`]): a log beside the configuration may change thousands of
//! times a second, even because of the wake itself. A fault of the watcher is logged once; the scans go on.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _, event::AccessKind};
use tokio::sync::Notify;

/// A folder, and its device and inode when it was last watched.
struct Folder {
    path: PathBuf,
    watched: Option<(u64, u64)>,
    /// Whether a fault of its watch is in the log.
    is_fault_logged: bool,
}

/// Watches folders.
pub(crate) struct Watcher {
    watcher: Option<RecommendedWatcher>,
    folders: Vec<Folder>,
}

/// Names of the files that matter: components, their signatures, and the given ones. Names that begin with two dots
/// count as well: through them Kubernetes exchanges all files of a volume at once.
struct NamesOfInterest(BTreeSet<OsString>);

impl NamesOfInterest {
    /// Whether an event may be a change of such a file. An event without a path means that others were lost.
    fn concern(&self, event: &Event) -> bool {
        let reads = matches!(event.kind, EventKind::Access(access) if !matches!(access, AccessKind::Close(_)));
        !reads && (event.need_rescan() || event.paths.is_empty() || event.paths.iter().any(|path| self.has(path)))
    }

    fn has(&self, path: &Path) -> bool {
        let Some(name) = path.file_name() else { return true };
        let bytes = name.as_encoded_bytes();
        bytes.ends_with(b".wasm") || bytes.ends_with(b".minisig") || bytes.starts_with(b"..") || self.0.contains(name)
    }
}

impl Watcher {
    /// Makes a watcher of the folder of plugins and of the configuration's file. It notifies `kick` after every change
    /// of a file that matters.
    pub(crate) fn new(plugin_dir: &Path, config: Option<&Path>, kick: Arc<Notify>) -> Self {
        let mut folders = vec![plugin_dir.to_owned()];
        let parent =
            config.map(|path| path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")));
        folders.extend(parent.map(Path::to_owned));
        // A folder's own name comes with its removal.
        let own = folders.iter().filter_map(|dir| dir.file_name()).chain(config.and_then(Path::file_name));
        let names = NamesOfInterest(own.map(OsStr::to_owned).collect());
        let is_fault_logged = AtomicBool::new(false);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| match event {
            Ok(event) if names.concern(&event) => kick.notify_one(),
            Ok(_) => {}
            Err(e) if !is_fault_logged.swap(true, Ordering::Relaxed) => {
                tracing::warn!("the watch of folders has faults: {e}; scans every 2 s find what it misses");
            }
            Err(_) => {}
        });
        let watcher = watcher
            .map_err(|e| {
                tracing::warn!("folders cannot be watched: {e}; changes of plugins are noticed only by scans every 2 s")
            })
            .ok();
        let folders = folders.into_iter().map(|path| Folder { path, watched: None, is_fault_logged: false }).collect();
        Self { watcher, folders }
    }

    /// Watches folders that are not watched yet or have been replaced.
    pub(crate) fn ensure(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        for folder in &mut self.folders {
            let now = identity(&folder.path);
            if folder.watched == now {
                continue;
            }
            if folder.watched.take().is_some() {
                // The folder may be gone already, and its watch with it.
                let _ = watcher.unwatch(&folder.path);
            }
            if now.is_some() {
                match watcher.watch(&folder.path, RecursiveMode::NonRecursive) {
                    Ok(()) => (folder.watched, folder.is_fault_logged) = (now, false),
                    Err(e) if !std::mem::replace(&mut folder.is_fault_logged, true) => {
                        tracing::warn!(path = %folder.path.display(), "not watched: {e}; scans every 2 s find changes");
                    }
                    Err(_) => {}
                }
            }
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_dir).map(|m| (m.dev(), m.ino()))
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use tokio::time::timeout;

    use super::*;

    /// Waits for a wake; the system gives no sign that it has nothing to report.
    async fn wakes(kick: &Notify) -> bool {
        timeout(Duration::from_millis(300), kick.notified()).await.is_ok()
    }

    #[tokio::test]
    async fn only_files_that_matter_wake() {
        let dir = tempfile::tempdir().unwrap();
        let (plugins, conf) = (dir.path().join("plugins"), dir.path().join("conf"));
        for dir in [&plugins, &conf] {
            fs::create_dir(dir).unwrap();
        }
        let kick = Arc::new(Notify::new());
        let mut watcher = Watcher::new(&plugins, Some(&conf.join("config.toml")), kick.clone());
        watcher.ensure();
        for path in [conf.join("server.log"), plugins.join(".mortise-x.part"), plugins.join("README.md")] {
            fs::write(&path, "x").unwrap();
            fs::rename(&path, path.with_extension("old")).unwrap();
            assert!(!wakes(&kick).await, "{}", path.display());
        }
        for path in [
            conf.join("config.toml"),
            conf.join("..data"),
            plugins.join("demo.wasm"),
            plugins.join("demo.wasm.minisig"),
        ] {
            fs::write(&path, "x").unwrap();
            timeout(Duration::from_secs(20), kick.notified()).await.unwrap_or_else(|_| panic!("{}", path.display()));
            while wakes(&kick).await {}
        }
        fs::remove_dir_all(&plugins).unwrap();
        timeout(Duration::from_secs(20), kick.notified()).await.unwrap();
    }
}
