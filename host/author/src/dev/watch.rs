//! Says when a crate's sources change: all below its folder, but for what cargo and version control write there.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use mortise_cli::CliError;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _, event::AccessKind};
use tokio::sync::mpsc;

use crate::fault;

/// Folders beside the sources that are not watched; neither are hidden ones.
const IGNORED: [&str; 1] = ["target"];

/// A crate's sources.
pub(super) struct Watch {
    dir: PathBuf,
    watcher: RecommendedWatcher,
    folders: BTreeSet<PathBuf>,
    changes: mpsc::Receiver<()>,
}

impl Watch {
    /// Watches from now on.
    ///
    /// # Errors
    /// The system cannot watch any more files.
    pub(super) fn new(dir: &Path) -> Result<Self, CliError> {
        let dir = fs::canonicalize(dir).map_err(fault::file("find", dir))?;
        // One that waits is as good as many.
        let (send, changes) = mpsc::channel(1);
        let root = dir.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // What the system could not tell may have been a change.
            if event.map_or(true, |event| concerns(&root, &event)) {
                let _ = send.try_send(());
            }
        });
        let watcher = watcher.map_err(|e| failed(&dir, &e))?;
        let mut watch = Self { dir, watcher, folders: BTreeSet::new(), changes };
        watch.ensure()?;
        Ok(watch)
    }

    /// Watches folders that are new.
    fn ensure(&mut self) -> Result<(), CliError> {
        if self.folders.insert(self.dir.clone()) {
            self.watcher.watch(&self.dir, RecursiveMode::NonRecursive).map_err(|e| failed(&self.dir, &e))?;
        }
        let folders = fs::read_dir(&self.dir).map_err(fault::file("read", &self.dir))?.flatten();
        for folder in folders.map(|entry| entry.path()).filter(|path| path.is_dir() && !is_ignored(path)) {
            if !self.folders.contains(&folder) {
                self.watcher.watch(&folder, RecursiveMode::Recursive).map_err(|e| failed(&folder, &e))?;
                self.folders.insert(folder);
            }
        }
        self.folders.retain(|folder| folder.is_dir());
        Ok(())
    }

    /// Waits for a change, and then until nothing has changed for a while; answers when the first was.
    pub(super) async fn changed(&mut self, settle: Duration) -> Instant {
        // The sender lives as long as the watcher.
        let _ = self.changes.recv().await;
        let first = Instant::now();
        while tokio::time::timeout(settle, self.changes.recv()).await.is_ok() {}
        // A folder that cannot be watched now is tried again with the next change.
        let _ = self.ensure();
        first
    }
}

/// Whether an event is about a source.
fn concerns(root: &Path, event: &notify::Event) -> bool {
    let read_only = matches!(event.kind, EventKind::Access(access) if !matches!(access, AccessKind::Close(_)));
    let closed_unwritten =
        matches!(event.kind, EventKind::Access(AccessKind::Close(mode)) if mode != notify::event::AccessMode::Write);
    let is_source = |path: &PathBuf| {
        let below = path.strip_prefix(root).unwrap_or(path);
        let first = below.components().next().map(|part| root.join(part));
        // cargo writes it while it builds, and what changed it is in Cargo.toml.
        below != Path::new("Cargo.lock") && first.is_none_or(|first| !is_ignored(&first)) && !is_scratch(path)
    };
    !read_only && !closed_unwritten && (event.paths.is_empty() || event.paths.iter().any(is_source))
}

fn is_ignored(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.starts_with('.') || IGNORED.contains(&&*name)
}

/// What editors keep beside a file, and test runs record.
fn is_scratch(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.ends_with('~') || name.starts_with(".#") || name.ends_with(".swp") || name.ends_with(".swx") || name == "4913"
}

fn failed(path: &Path, error: &notify::Error) -> CliError {
    fault::failed(
        format!("cannot watch {}: {error}", path.display()),
        "raise fs.inotify.max_user_watches (`sysctl fs.inotify`), or run `mortise plugin dev --once` after each change",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_dir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["src", "target/debug", ".git"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        fs::write(dir.path().join("src/lib.rs"), "one").unwrap();
        dir
    }

    async fn notices(watch: &mut Watch) -> bool {
        tokio::time::timeout(Duration::from_millis(800), watch.changed(Duration::from_millis(20))).await.is_ok()
    }

    #[tokio::test]
    async fn sources_are_noticed_and_artifacts_are_not() {
        let dir = crate_dir();
        let mut watch = Watch::new(dir.path()).unwrap();
        for (path, expected) in [
            ("src/lib.rs", true),
            ("target/debug/lib.rlib", false),
            (".git/index", false),
            ("Cargo.lock", false),
            ("src/.lib.rs.swp", false),
            ("Cargo.toml", true),
        ] {
            fs::write(dir.path().join(path), "two").unwrap();
            assert_eq!(notices(&mut watch).await, expected, "{path}");
        }
        fs::read(dir.path().join("src/lib.rs")).unwrap();
        assert!(!notices(&mut watch).await, "reading is no change");
    }

    #[tokio::test]
    async fn new_folders_are_watched_too() {
        let dir = crate_dir();
        let mut watch = Watch::new(dir.path()).unwrap();
        fs::create_dir(dir.path().join("proto")).unwrap();
        assert!(notices(&mut watch).await);
        fs::write(dir.path().join("proto/a.proto"), "x").unwrap();
        assert!(notices(&mut watch).await);
    }
}
