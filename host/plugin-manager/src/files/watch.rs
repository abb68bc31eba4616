//! Watches folders by notifications of the system. The system may miss changes, or cannot watch (a folder that does not
//! exist yet, a file system without notifications, a link to elsewhere); so the caller also scans from time to time.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _, event::AccessKind};
use tokio::sync::Notify;

/// A folder, and its device and inode when it was last watched.
struct Folder {
    path: PathBuf,
    watched: Option<(u64, u64)>,
}

/// Watches folders.
pub(crate) struct Watcher {
    watcher: Option<RecommendedWatcher>,
    folders: Vec<Folder>,
}

impl Watcher {
    /// Makes a watcher that notifies `kick` after every change in one of the folders.
    pub(crate) fn new(folders: Vec<PathBuf>, kick: Arc<Notify>) -> Self {
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let read_only = |kind| matches!(kind, EventKind::Access(access) if !matches!(access, AccessKind::Close(_)));
            if !event.is_ok_and(|event| read_only(event.kind)) {
                kick.notify_one();
            }
        });
        let watcher = watcher
            .map_err(|e| {
                tracing::warn!("folders cannot be watched: {e}; changes of plugins are noticed only by scans every 2 s")
            })
            .ok();
        let folders = folders.into_iter().map(|path| Folder { path, watched: None }).collect();
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
                    Ok(()) => folder.watched = now,
                    Err(e) => tracing::debug!(path = %folder.path.display(), "not watched: {e}"),
                }
            }
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_dir).map(|m| (m.dev(), m.ino()))
}
