//! The engine: sled 0.34 behind a write-ahead log and one commit thread.
//!
//! - `open`: the directory, its lock, and creation that survives a loss of power. `load`: making a store of a
//!   snapshot's records. `comparison`: checks of these records. `offline`: the check of a closed store. `compact`:
//!   writing it again, smaller. `salvage`: reading the intact part of a damaged one.
//! - `commit`: the way of a write to durability and publication, and from the log to the tree.
//! - `read`: point reads, exact scans, watches and snapshots, and the moment at which a commit becomes visible.
//! - `tree`: keys, records, and the table: sled's tree with the newest changes in memory in front of it.
//! - `files`: the write-ahead log, and the small files beside sled's.

mod commit;
mod compact;
mod comparison;
mod files;
mod load;
mod metrics;
mod offline;
mod open;
mod options;
mod planted;
mod read;
mod salvage;
mod tree;

#[cfg(test)]
mod tests;

use std::{fmt, path::Path, sync::Arc, thread::JoinHandle};

use async_trait::async_trait;
use mortise_resource::{EncodedResource, data::OnDelete, pb};
use parking_lot::Mutex;
use prost_types::Timestamp;
use tokio::sync::{oneshot, watch};

use self::{
    commit::{job::Job, shared::Shared},
    files::wal::{self, SyncDisk},
    read::{
        changes,
        copy::Copied,
        filter::{Filter, with_place},
        form::Parsed,
        point,
        publisher::SubscribeRequest,
        replay,
        watch::SledWatch,
    },
    tree::panics::catch_sled_panic,
};
pub use self::{
    compact::Compaction,
    comparison::Comparison,
    files::{format::CURRENT as FORMAT, layout::Lock, store_id::StoreId},
    load::Loader,
    options::Options,
};
use crate::{
    Backend, Batch, ChangeWatch, Consistency, CopyCursor, CopyRequest, Cursor, ExpectedId, Health, ListKey,
    OpenedChanges, PastContent, Position, Query, Record, ScanPart, Snapshot, Stats, StoreError, Term, TypeKey, Usage,
    Watch,
    check::Problem,
    follower::{Draft, DraftLimits, DraftedGrowth, FilledResource, FollowedCommit},
};

/// A store in a local directory.
///
/// Reads and short lists run on the caller's task; commits wait for the commit thread. Dropping the store, like
/// [`SledBackend::close`], waits until the commit thread has finished the accepted batches.
pub struct SledBackend {
    shared: Arc<Shared>,
    /// Threads of the store, the commit thread first.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SledBackend {
    /// Opens the store in `options.path`, or makes it. Blocks: some 100 ms for a store of a gigabyte, up to seconds for
    /// the first opening after a crash, which copies the write-ahead log to the tree.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when the store is open, here or in another process; [`StoreError::NewerFormat`];
    /// [`StoreError::Corrupt`], naming the file; [`StoreError::Io`].
    pub fn open(options: Options) -> Result<Self, StoreError> {
        Self::open_on(options, None, None)
    }

    /// Opens or makes the copy of a shared store with this id. Nothing waits for the disk: see [`crate::follower`].
    ///
    /// # Errors
    /// As [`SledBackend::open`]. The copy of another store opens, too; [`SledBackend::id`] tells.
    pub fn open_follower(options: Options, shared: StoreId) -> Result<Self, StoreError> {
        Self::open_on(options, Some(Box::new(|_| Ok(()))), Some(shared))
    }

    /// Opens as [`SledBackend::open`]. `sync_disk` replaces the sync of the disk; a new store gets the id `new_id`.
    fn open_on(options: Options, sync_disk: Option<SyncDisk>, new_id: Option<StoreId>) -> Result<Self, StoreError> {
        let file = options.path.join(files::layout::STORE).join(files::layout::DB);
        let (shared, threads) = catch_sled_panic(&file, || open::open(options, sync_disk, new_id))?;
        Ok(Self { shared, threads: Mutex::new(threads) })
    }

    /// Returns the directory of the store.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.options.path
    }

    /// Returns the id of the store, which no other store has.
    #[must_use]
    pub fn id(&self) -> StoreId {
        self.shared.id
    }

    /// Returns the reason why writes are refused, if they are.
    #[must_use]
    pub fn poisoned(&self) -> Option<&str> {
        self.shared.poisoned.get().map(String::as_str)
    }

    /// Returns the bytes of the store on the disk.
    ///
    /// # Errors
    /// Only faults of the file system.
    pub fn size_on_disk(&self) -> Result<u64, StoreError> {
        Ok(self.shared.table.size_on_disk()? + wal::size_on_disk(&self.shared.options.path.join(files::layout::STORE)))
    }

    /// Checks the whole store for contradictions; see [`crate::check`]. Writes wait meanwhile. Takes about 2 µs for
    /// each resource and event.
    ///
    /// # Errors
    /// Only when the store is closed or cannot be read at all; damage is the returned value.
    pub async fn check(&self) -> Result<Vec<Problem>, StoreError> {
        self.ask(Job::Check).await
    }

    /// Reads the number of the format of the store in `path`, which a server may have open; `None` without a store.
    /// Changes nothing.
    ///
    /// # Errors
    /// [`StoreError::NewerFormat`]; [`StoreError::Corrupt`] without a number; faults of the file system.
    pub fn format(path: &Path) -> Result<Option<u32>, StoreError> {
        files::layout::store_dir(path).map(|dir| files::format::check(path, &dir)).transpose()
    }

    /// Checks the store in `path` while no server has it open, without changing it: works on a copy, which needs space
    /// beside the store or in `work_dir`. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Absent`], [`StoreError::Locked`], [`StoreError::NewerFormat`]; [`StoreError::Corrupt`] when it
    /// cannot be opened at all; faults of the file system.
    pub fn check_offline(path: &Path, work_dir: Option<&Path>) -> Result<crate::check::Report, StoreError> {
        offline::check(path, work_dir)
    }

    /// Writes the store in `path` again, without the space of what was deleted; no server may have it open. Safe under
    /// a kill at any moment. Needs disk space for the result beside the store. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Absent`], [`StoreError::Locked`], [`StoreError::NewerFormat`]; [`StoreError::Corrupt`]; faults of
    /// the file system, a full disk among them. Any error leaves the store as it is.
    pub fn compact(path: &Path) -> Result<Compaction, StoreError> {
        compact::compact(path)
    }

    /// Hands every readable resource of the store in `path` to `found`, in order of keys, without changing the store;
    /// no server may have it open. Returns the highest version that a resource may have had, and the problems. Blocks.
    ///
    /// # Errors
    /// Those of [`SledBackend::check_offline`].
    pub fn salvage(
        path: &Path,
        work_dir: Option<&Path>,
        found: &mut dyn FnMut(Record),
    ) -> Result<(u64, Vec<Problem>), StoreError> {
        salvage::salvage(path, work_dir, found)
    }

    /// Sends a job to the commit thread, and waits for the answer.
    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Job) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.shared.queue.push(job(reply)).await?;
        answer.await.unwrap_or_else(|_| Err(self.shared.gone()))
    }

    /// Checks a batch as far as possible without its place among others.
    ///
    /// # Errors
    /// [`StoreError::IncompleteId`]; [`StoreError::Poisoned`].
    pub fn admit(&self, batch: &Batch) -> Result<(), StoreError> {
        self.shared.admit(batch)
    }

    /// Checks [admitted](SledBackend::admit) batches as [`Backend::commit`] does, one after another, on the newest
    /// state, and stores nothing. `unseen` is the growth of earlier drafts that this store may not have yet.
    ///
    /// # Errors
    /// Only faults of the store itself; a refused batch is a result of the draft.
    pub async fn draft(
        &self,
        batches: Vec<Batch>,
        limits: DraftLimits,
        unseen: DraftedGrowth,
    ) -> Result<Draft, StoreError> {
        self.ask(|reply| Job::Draft(batches, (limits, unseen), reply)).await
    }

    /// Applies commits of the store that this one follows, in order.
    ///
    /// # Errors
    /// [`StoreError::Full`] with nothing applied; other faults of the store, which then refuses everything.
    pub async fn follow(&self, commits: Vec<FollowedCommit>) -> Result<(), StoreError> {
        self.ask(|reply| Job::Follow(commits, reply)).await
    }

    /// Adds resources to a new copy, without events, until [`SledBackend::filled`].
    ///
    /// # Errors
    /// As [`SledBackend::follow`].
    pub async fn fill(&self, resources: Vec<FilledResource>) -> Result<(), StoreError> {
        self.ask(|reply| Job::Fill(resources, reply)).await
    }

    /// Notes that the copy has the whole content as of a sequence, which is not lower than that of any resource.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn filled(&self, sequence: u64) -> Result<(), StoreError> {
        self.ask(|reply| Job::Filled(sequence, reply)).await
    }

    /// Refuses further writes, finishes the accepted ones, and ends every watch with [`StoreError::Closed`]. Blocks
    /// until the write-ahead log is copied to the tree: up to a second or two after many writes, longer on a disk with
    /// slow syncs. Reads continue until the value is dropped, which also releases the directory.
    pub fn close(&self) {
        self.shared.queue.close();
        let threads = std::mem::take(&mut *self.threads.lock());
        let running = !threads.is_empty();
        for thread in threads {
            // Wakes the scrub thread from its pause.
            thread.thread().unpark();
            // Threads catch their panics; an uncaught one has no receiver.
            thread.join().ok();
        }
        if running {
            self.shared.note_last_commit();
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

#[async_trait]
impl Backend for SledBackend {
    async fn read_encoded(&self, _consistency: Consistency, id: &pb::Id) -> Result<EncodedResource, StoreError> {
        point::read(&self.shared.table, id)
    }

    /// Commits an accepted batch even when the future is dropped.
    async fn commit(&self, batch: Batch) -> Result<Vec<Option<EncodedResource>>, StoreError> {
        self.shared.admit(&batch)?;
        let (reply, answer) = oneshot::channel();
        if self.shared.queue.push(Job::Commit(batch, reply)).await.is_err() {
            return Err(self.shared.gone());
        }
        answer.await.unwrap_or_else(|_| Err(self.shared.gone()))
    }

    async fn list(&self, _consistency: Consistency, query: &Query) -> Result<Vec<pb::Resource>, StoreError> {
        self.shared.scanner.list(Filter::Query(query.clone())).await
    }

    async fn scan(&self, query: &Query) -> Result<Box<dyn Cursor>, StoreError> {
        Ok(Box::new(self.shared.scanner.cursor(Filter::Query(query.clone()), Parsed)))
    }

    async fn scan_copies(&self, query: &Query, request: CopyRequest) -> Result<Box<dyn CopyCursor>, StoreError> {
        Ok(Box::new(self.shared.scanner.cursor(Filter::Query(query.clone()), Copied(request))))
    }

    async fn scan_part(&self, query: &Query, part: &ScanPart) -> Result<Box<dyn Cursor>, StoreError> {
        Ok(Box::new(self.shared.scanner.cursor(Filter::Part(query.clone(), part.clone()), Parsed)))
    }

    async fn list_by_owner(&self, owner: &pb::Id) -> Result<Vec<pb::Resource>, StoreError> {
        self.shared.scanner.list(Filter::Owner(owner.clone())).await
    }

    async fn scan_referrers(&self, target: &ExpectedId, on_delete: OnDelete) -> Result<Box<dyn Cursor>, StoreError> {
        Ok(Box::new(self.shared.scanner.cursor(Filter::Referrer(target.clone(), on_delete), Parsed)))
    }

    async fn scan_owned(&self, owner: &pb::Id) -> Result<Box<dyn Cursor>, StoreError> {
        Ok(Box::new(self.shared.scanner.cursor(Filter::Owner(owner.clone()), Parsed)))
    }

    async fn watch_list(&self, query: &Query, after: Option<&ListKey>) -> Result<Box<dyn Watch>, StoreError> {
        let filter = match after.cloned() {
            None => Filter::Query(query.clone()),
            after => Filter::Part(query.clone(), ScanPart { label: None, after }),
        };
        let terms = with_place(&[], query);
        let wanted = SubscribeRequest { type_key: &query.type_key, terms: &terms, compares: false };
        let (snapshot, events, _) = self.shared.scanner.watch(filter.clone(), &wanted)?;
        Ok(Box::new(SledWatch::new(snapshot, filter, events)))
    }

    async fn open_changes(&self, query: &Query, part: &ScanPart, terms: &[Term]) -> Result<OpenedChanges, StoreError> {
        changes::open(&self.shared.scanner, query, part, terms)
    }

    async fn changes_after(
        &self,
        query: &Query,
        part: &ScanPart,
        terms: &[Term],
        position: Position,
    ) -> Result<Option<Box<dyn ChangeWatch>>, StoreError> {
        changes::after(&self.shared.scanner, query, part, terms, position).await
    }

    async fn keep(&self, query: &Query) -> Result<Box<dyn PastContent>, StoreError> {
        Ok(Box::new(self.shared.publisher.keep(Filter::Query(query.clone()))))
    }

    async fn position_before(&self, time: Timestamp) -> Result<Option<Position>, StoreError> {
        self.shared.scanner.clone().blocking(move |table| replay::position_before(table, time)).await
    }

    async fn types(&self) -> Result<Vec<TypeKey>, StoreError> {
        Ok(self.shared.publisher.types())
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        Ok(Box::new(self.ask(Job::Snapshot).await?))
    }

    fn newest_version(&self) -> u64 {
        self.shared.publisher.newest()
    }

    fn store_id(&self) -> StoreId {
        self.shared.id
    }

    fn health(&self) -> watch::Receiver<Health> {
        self.shared.health.subscribe()
    }

    async fn usage(&self, limit: usize) -> Result<Usage, StoreError> {
        self.ask(|reply| Job::Usage(limit, reply)).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        Ok(Stats {
            head: self.ask(Job::Head).await?,
            bytes_on_disk: match self.size_on_disk() {
                // A backup of a store whose files are gone begins with these figures.
                Err(_) if self.shared.files.check().is_err() => 0,
                size => size?,
            },
            snapshots: self.shared.snapshots.count(),
            health: self.shared.health.borrow().clone(),
        })
    }
}

/// Decodes bytes like those on the disk.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    tree::record::fuzz(bytes);
    files::wal::fuzz(bytes);
}
