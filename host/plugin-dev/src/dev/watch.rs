//! Reports changes of a crate's sources: all below its folder, except what cargo and version control write there.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_cli::CliError;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _, event::AccessKind};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::fault;

/// Folders next to the sources that are not watched; hidden ones and data directories of servers are not watched
/// either.
const IGNORED: [&str; 1] = ["target"];

/// Longest wait for changes to stop.
const MAX_SETTLE_WAIT: Duration = Duration::from_secs(2);

/// Watch of a crate's sources.
pub(super) struct Watch {
    dir: PathBuf,
    watcher: RecommendedWatcher,
    folders: BTreeSet<PathBuf>,
    changes: mpsc::Receiver<()>,
    /// Folder of the last build's output.
    built: Arc<Mutex<Option<PathBuf>>>,
}

impl Watch {
    /// Watches from now on.
    ///
    /// # Errors
    /// The system cannot watch more files.
    pub(super) fn new(dir: &Path) -> Result<Self, CliError> {
        let dir = fs::canonicalize(dir).map_err(fault::file("find", dir))?;
        // One waiting message suffices.
        let (send, changes) = mpsc::channel(1);
        let root = dir.clone();
        let built = Arc::new(Mutex::new(None));
        let ignored = built.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // An error of the watcher may hide a change.
            if event.map_or(true, |event| concerns(&root, ignored.lock().as_deref(), &event)) {
                let _ = send.try_send(());
            }
        });
        let watcher = watcher.map_err(|e| failed(&dir, &e))?;
        let mut watch = Self { dir, watcher, folders: BTreeSet::new(), changes, built };
        watch.ensure()?;
        Ok(watch)
    }

    /// Ignores changes below this directory, where builds put their output.
    pub(super) fn ignore(&self, built: &Path) {
        *self.built.lock() = fs::canonicalize(built).ok();
    }

    /// Watches new folders.
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

    /// Waits for a change, and then for a pause in the changes; returns the time of the first.
    pub(super) async fn changed(&mut self, settle: Duration) -> Instant {
        // The sender lives as long as the watcher.
        let _ = self.changes.recv().await;
        let first = Instant::now();
        while first.elapsed() < MAX_SETTLE_WAIT && tokio::time::timeout(settle, self.changes.recv()).await.is_ok() {}
        // A folder that cannot be watched now is tried again with the next change.
        let _ = self.ensure();
        first
    }
}

/// Whether an event concerns a source.
fn concerns(root: &Path, built: Option<&Path>, event: &notify::Event) -> bool {
    let read_only = matches!(event.kind, EventKind::Access(access) if !matches!(access, AccessKind::Close(_)));
    let closed_unwritten =
        matches!(event.kind, EventKind::Access(AccessKind::Close(mode)) if mode != notify::event::AccessMode::Write);
    let is_source = |path: &PathBuf| {
        let below = path.strip_prefix(root).unwrap_or(path);
        let first = below.components().next().map(|part| root.join(part));
        // cargo writes it during a build; the change behind it is in Cargo.toml.
        below != Path::new("Cargo.lock")
            && !built.is_some_and(|built| path.starts_with(built))
            && first.is_none_or(|first| !is_ignored(&first))
            && !is_scratch(path)
    };
    !read_only && !closed_unwritten && (event.paths.is_empty() || event.paths.iter().any(is_source))
}

fn is_ignored(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.starts_with('.') || IGNORED.contains(&&*name) || path.join("store/lock").exists()
}

/// Whether a file belongs to an editor, to a recording of tests, or to a server's plugin folder.
fn is_scratch(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.ends_with('~')
        || name.starts_with(".#")
        || name.ends_with(".swp")
        || name.ends_with(".swx")
        || name == "4913"
        || name.ends_with(".wasm")
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
        // Folders of a server's data and plugins, and the output folder of a build with another target directory.
        for folder in ["data/store", "plugins", "out"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        fs::write(dir.path().join("data/store/lock"), "").unwrap();
        while notices(&mut watch).await {}
        watch.ignore(&dir.path().join("out"));
        for path in ["data/store/db", "plugins/x.wasm", "out/lock"] {
            fs::write(dir.path().join(path), "x").unwrap();
            assert!(!notices(&mut watch).await, "{path}");
        }
    }

    /// Endless changes do not keep a change from being built.
    #[tokio::test]
    async fn a_change_is_told_of_however_many_follow() {
        let dir = crate_dir();
        let mut watch = Watch::new(dir.path()).unwrap();
        let path = dir.path().join("src/lib.rs");
        let writing = tokio::spawn(async move {
            loop {
                fs::write(&path, "more").unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        tokio::time::timeout(MAX_SETTLE_WAIT * 5, watch.changed(Duration::from_millis(100))).await.unwrap();
        writing.abort();
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
