//! Tests of the engine as a whole.

mod changes;
mod chunks;
mod compact;
mod damage;
mod full;
mod gone;
mod history;
mod in_flight;
mod load;
mod log;
mod log_end;
mod offline;
mod panic;
mod power;
mod reopen;
mod stall;
mod store_id;
mod stress;
mod sums;
mod types;
mod usage;
mod watches;

use std::{
    fs::File,
    ops::Deref,
    path::{Path, PathBuf},
};

use super::{
    commit::checkpoint_thread,
    files::wal,
    tree::{
        checkpoint, checkpoint_position::CheckpointPosition, keys, sled_file, table::Table, write_batch::WriteBatch,
    },
    *,
};
use crate::{Mutation, conformance::fixtures::*};

mod conformance {
    crate::conformance_tests!(|| Some(super::TestStore::new(|path| path)));
}

/// A store in a temporary directory.
pub(crate) struct TestStore {
    store: Option<SledBackend>,
    options: Options,
    dir: tempfile::TempDir,
}

impl TestStore {
    /// Makes a store with the bounds of the conformance suite, changed by the test.
    fn new(change: impl FnOnce(Options) -> Options) -> Self {
        Self::with(change, None)
    }

    fn with(change: impl FnOnce(Options) -> Options, sync: Option<SyncDisk>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = change(Options {
            watch_buffer: crate::conformance::WATCH_BUFFER,
            max_resource_bytes: crate::conformance::MAX_RESOURCE_BYTES,
            quotas: crate::conformance::QUOTAS,
            ..Options::new(dir.path().join("data"))
        });
        Self { store: Some(SledBackend::open_on(options.clone(), sync, None).unwrap()), options, dir }
    }

    /// Returns the data directory.
    fn path(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn shut(&mut self) {
        self.store = None;
    }

    fn open(&mut self) -> Result<(), StoreError> {
        self.store = Some(SledBackend::open(self.options.clone())?);
        Ok(())
    }

    fn reopen(&mut self) {
        self.shut();
        self.open().unwrap();
    }

    /// Changes sled's content directly. The store must be closed.
    fn tamper(&self, change: impl FnOnce(&sled::Db)) {
        // A store dropped just now may hold the lock until the last of sled's own threads has ended.
        let open = || sled::Config::new().path(self.path().join("store")).flush_every_ms(None).open();
        let mut opened = open();
        for _ in 0..200 {
            if opened.is_ok() {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(10));
            opened = open();
        }
        let db = opened.unwrap();
        change(&db);
        db.flush().unwrap();
    }

    async fn problems(&self) -> Vec<String> {
        self.check().await.unwrap().iter().map(ToString::to_string).collect()
    }

    /// Returns the number of keys in a space.
    fn count(&self, space: u8) -> usize {
        self.shared.table.range(vec![space]..vec![space + 1]).map(Result::unwrap).count()
    }
}

impl Deref for TestStore {
    type Target = SledBackend;

    fn deref(&self) -> &SledBackend {
        self.store.as_ref().unwrap()
    }
}

impl Drop for TestStore {
    /// Checks that sled made no blob in any test, since it never syncs blobs.
    fn drop(&mut self) {
        self.store = None;
        if !std::thread::panicking() {
            assert_eq!(blobs(&self.path()), 0);
        }
    }
}

fn blobs(path: &Path) -> usize {
    std::fs::read_dir(path.join("store/blobs")).map_or(0, Iterator::count)
}

/// Copies the files of a store.
fn copy_store(from: &Path, to: &Path) {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let to = to.join(path.file_name().unwrap());
            if path.is_dir() {
                copy(&path, &to);
            } else {
                std::fs::copy(&path, &to).unwrap();
            }
        }
    }
    copy(&from.join("store"), &to.join("store"));
}

/// Returns the resource with a text of this many bytes in its metadata.
fn sized(mut resource: pb::Resource, bytes: usize) -> pb::Resource {
    resource.metadata.insert("text".into(), "x".repeat(bytes));
    resource
}

fn owned(resource: pb::Resource, owner: &pb::Resource) -> pb::Resource {
    pb::Resource { owner: Some(id(owner)), ..resource }
}
