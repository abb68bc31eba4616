//! The engine: sled 0.34 behind a write-ahead log and one commit thread.
//!
//! - `open`: the directory, its lock, and creation that survives a loss of power. `load`: a store made of the records of
//!   a snapshot. `offline`: the check of a store that no server has open.
//! - `commit`: the life of a write until it is durable and published, and its way from the log to the tree.
//! - `read`: point reads, exact scans, watches and snapshots, and the moment at which a commit becomes visible.
//! - `tree`: keys, records, and the table: sled's tree with the newest changes in front of it.
//! - `files`: the write-ahead log, and the small files beside sled's.

mod commit;
mod files;
mod load;
mod metrics;
mod offline;
mod open;
mod options;
mod read;
mod tree;

#[cfg(test)]
mod tests;

use std::{
    any::Any,
    fmt,
    fs::File,
    panic::AssertUnwindSafe,
    path::Path,
    sync::{Arc, OnceLock},
    thread::JoinHandle,
};

use async_trait::async_trait;
use mortise_resource::pb;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

use self::{
    commit::{commit_group, commit_thread::Job, queue::Queue},
    files::closed_at,
    read::{filter::Filter, point, publisher::Publisher, scan, snapshot::Snapshots, watch::SledWatch},
    tree::table::Table,
};
pub use self::{
    files::format::CURRENT as FORMAT,
    load::{Loader, judge},
    open::Lock,
    options::Options,
};
use crate::{
    Backend, Batch, Consistency, Mutation, Query, Snapshot, Stats, StoreError, TypeKey, Watch, check::Problem,
};

/// A store in a directory of this machine.
///
/// Reads and short lists are answered on the caller's task; commits wait for the commit thread. Dropping it, like
/// [`SledBackend::close`], lets the commit thread finish what was accepted and waits for that.
pub struct SledBackend {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What callers, scans and the commit thread share. Fields are dropped in order: the lock goes last.
struct Shared {
    table: Table,
    publisher: Arc<Publisher>,
    queue: Queue<Job>,
    /// Why writes are refused.
    poisoned: OnceLock<String>,
    snapshots: Arc<Snapshots>,
    /// Bounds how many scans hold their results in memory at once.
    long_scans: Arc<Semaphore>,
    options: Options,
    /// Keeps other processes out.
    _lock: File,
}

impl SledBackend {
    /// Opens the store in `options.path`, or makes it. Blocks: some 100 ms for a store of a gigabyte, up to seconds for the
    /// first opening after a crash, which copies the write-ahead log to the tree.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when it is open, here or in another process; [`StoreError::NewerFormat`];
    /// [`StoreError::Corrupt`], naming the file; [`StoreError::Io`].
    pub fn open(options: Options) -> Result<Self, StoreError> {
        open::open(options, None)
    }

    /// The directory of the store.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.options.path
    }

    /// Why writes are refused, once they are.
    #[must_use]
    pub fn poisoned(&self) -> Option<&str> {
        self.shared.poisoned.get().map(String::as_str)
    }

    /// Bytes that the store takes on the disk.
    ///
    /// # Errors
    /// Only faults of the file system.
    pub fn size_on_disk(&self) -> Result<u64, StoreError> {
        self.shared.table.size_on_disk()
    }

    /// Walks the whole store and compares everything that must agree; see [`crate::check`]. Writes wait meanwhile. Takes
    /// about 2 µs for each resource and event.
    ///
    /// # Errors
    /// Only when the store is closed or cannot be read at all; damage is what it returns.
    pub async fn check(&self) -> Result<Vec<Problem>, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.shared.queue.push(Job::Check(reply)).await?;
        answer.await.unwrap_or_else(|_| Err(self.shared.gone()))
    }

    /// Checks the store in `path` while no server has it open, and leaves it as it is: it works on a copy, for which there
    /// has to be room beside it. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Absent`], [`StoreError::Locked`], [`StoreError::NewerFormat`]; [`StoreError::Corrupt`] when it cannot be
    /// opened at all; faults of the file system.
    pub fn check_offline(path: &Path) -> Result<crate::check::Report, StoreError> {
        offline::check(path)
    }

    /// Asks the commit thread for something that it has to count for first, until it has.
    async fn counted<T>(
        &self,
        job: impl Fn(oneshot::Sender<Result<Option<T>, StoreError>>) -> Job,
    ) -> Result<T, StoreError> {
        loop {
            let (reply, answer) = oneshot::channel();
            self.shared.queue.push(job(reply)).await?;
            if let Some(found) = answer.await.unwrap_or_else(|_| Err(self.shared.gone()))? {
                return Ok(found);
            }
        }
    }

    /// Refuses further writes, finishes those that were accepted, and ends every watch with [`StoreError::Closed`]. Blocks
    /// until what is in the write-ahead log is in the tree: up to a second or two after many writes, longer on a disk that takes
    /// more than a few milliseconds for a sync. Reads go on until the value is dropped, and with it the directory is free again.
    pub fn close(&self) {
        self.shared.queue.close();
        if let Some(thread) = self.thread.lock().take() {
            // It contains its panics; one that got away has nobody left to tell.
            thread.join().ok();
            self.shared.note_the_end();
        }
        self.shared.publisher.close();
    }
}

impl Drop for SledBackend {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for SledBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledBackend").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Shared {
    /// Refuses writes from here on, and says why. The first reason stays.
    fn poison(&self, error: &StoreError) -> String {
        let why = match error {
            StoreError::Poisoned(why) => why.clone(),
            other => other.to_string(),
        };
        if self.poisoned.set(why.clone()).is_ok() {
            tracing::error!(path = %self.options.path.display(), why, "the store refuses writes from here on");
            metrics::poisoned();
        }
        why
    }

    /// Writes down how far the store had come. Nothing is lost without it; only a loss would not be noticed.
    fn note_the_end(&self) {
        if self.poisoned.get().is_some() {
            return;
        }
        let dir = self.options.path.join(open::STORE);
        let noted = open::meta(&self.table).and_then(|meta| closed_at::set(&dir, meta.last_seq));
        if let Err(error) = noted {
            tracing::warn!(path = %self.options.path.display(), %error, "the store's last commit was not written down");
        }
    }

    /// Why nobody answered.
    fn gone(&self) -> StoreError {
        self.poisoned.get().map_or(StoreError::Closed, |why| StoreError::Poisoned(why.clone()))
    }

    /// Judges what needs no look at the store, on the caller's time.
    fn admit(&self, batch: &Batch) -> Result<(), StoreError> {
        if let Some(why) = self.poisoned.get() {
            return Err(StoreError::Poisoned(why.clone()));
        }
        for mutation in &batch.mutations {
            if let Mutation::Put(resource) | Mutation::Rewrite(resource) = mutation {
                commit_group::complete(resource)?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Backend for SledBackend {
    async fn read(&self, _consistency: Consistency, id: &pb::Id) -> Result<pb::Resource, StoreError> {
        point::read(&self.shared, id)
    }

    /// A batch that was accepted is committed even when the future is dropped before it is done.
    async fn commit(&self, batch: Batch) -> Result<Vec<Option<pb::Resource>>, StoreError> {
        self.shared.admit(&batch)?;
        let (reply, answer) = oneshot::channel();
        if self.shared.queue.push(Job::Commit(batch, reply)).await.is_err() {
            return Err(self.shared.gone());
        }
        answer.await.unwrap_or_else(|_| Err(self.shared.gone()))
    }

    async fn list(&self, _consistency: Consistency, query: &Query) -> Result<Vec<pb::Resource>, StoreError> {
        scan::exact(&self.shared, Filter::Query(query.clone()), None, |decoder, exact| {
            exact.items.into_iter().map(|item| item.into_resource(decoder)).collect()
        })
        .await
    }

    async fn list_by_owner(&self, owner: &pb::Id) -> Result<Vec<pb::Resource>, StoreError> {
        scan::exact(&self.shared, Filter::Owner(owner.clone()), None, |decoder, exact| {
            exact.items.into_iter().map(|item| item.into_resource(decoder)).collect()
        })
        .await
    }

    async fn watch_list(&self, query: &Query) -> Result<Box<dyn Watch>, StoreError> {
        let filter = Filter::Query(query.clone());
        let exact = scan::exact(&self.shared, filter, Some(query.type_key.clone()), |_, exact| Ok(exact)).await?;
        let events = exact.events.ok_or(StoreError::Closed)?;
        let decoder = self.shared.table.decoder().clone();
        Ok(Box::new(SledWatch::new(self.shared.publisher.clone(), decoder, query, exact.items, events)))
    }

    async fn types(&self) -> Result<Vec<TypeKey>, StoreError> {
        Ok(self.shared.publisher.types())
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        Ok(Box::new(self.counted(Job::Snapshot).await?))
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        Ok(Stats {
            head: self.counted(Job::Head).await?,
            bytes_on_disk: self.size_on_disk()?,
            snapshots: self.shared.snapshots.count(),
            poisoned: self.poisoned().map(str::to_owned),
        })
    }
}

/// Sled panics where it meets a state that it holds impossible. Nobody may wait for ever because of that. `thread` names who
/// works.
fn contained<T>(thread: &str, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(StoreError::Poisoned(format!("the {thread} thread failed: {}", panic_text(panic.as_ref()))))
    })
}

/// What a panic said.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}
