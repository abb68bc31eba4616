//! The storage contract: reads of the copy, commits through etcd.

use std::sync::Arc;

use async_trait::async_trait;
use mortise_resource::{EncodedResource, data::OnDelete, pb};
use mortise_store::{
    Backend, Batch, ChangeWatch, Consistency, CopyCursor, CopyRequest, Cursor, ExpectedId, Health, ListKey, MemberInfo,
    Members, OpenedChanges, Options, PastContent, Position, Query, ScanPart, SledBackend, Snapshot, Stats, StoreError,
    StoreId, Term, TypeKey, Usage, Watch,
};
use prost_types::Timestamp;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    barrier::Barrier, commit::Commits, error::EtcdError, library::Library, options::EtcdOptions, placement::Placements,
    planted, start,
};

/// A store that several servers share through etcd. Dropping it ends its tasks; a batch that was proposed goes on.
pub struct EtcdBackend {
    pub(crate) store: Arc<SledBackend>,
    pub(crate) commits: Commits,
    pub(crate) barrier: Barrier,
    pub(crate) placements: Placements,
    pub(crate) library: Library,
    pub(crate) health: watch::Receiver<Health>,
    pub(crate) tasks: Vec<JoinHandle<()>>,
}

impl EtcdBackend {
    /// Checks the cluster, opens or makes the copy in `copy.path`, fills it if needed, and waits until it has
    /// everything that etcd has. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn open(options: &EtcdOptions, copy: Options) -> Result<Self, EtcdError> {
        start::open(options, copy).await
    }

    /// Asks for a piece of work that one server does at a time, by its name. The value is true while this server holds
    /// it. Dropping the receivers gives it up.
    #[must_use]
    pub fn hold(&self, name: &str) -> watch::Receiver<bool> {
        self.placements.hold(name)
    }

    /// Returns the name of this server among those that share the store.
    #[must_use]
    pub fn server(&self) -> &str {
        self.placements.server()
    }

    /// Tells the other servers about this one.
    pub fn introduce(&self, info: MemberInfo) {
        self.placements.introduce(info);
    }

    /// Returns the servers that run, by their names, as of the last half second; empty while this server has no lease.
    #[must_use]
    pub fn servers(&self) -> Vec<String> {
        self.placements.servers()
    }

    /// Returns the plans of plugins, and their components.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Gives up all work, so that other servers need not wait for the end of the lease.
    pub async fn give_up(&self) {
        self.placements.stop().await;
    }

    /// Refuses further writes, and ends the tasks and the watches. Blocks as [`SledBackend::close`].
    pub fn close(&self) {
        self.commits.close();
        self.tasks.iter().for_each(JoinHandle::abort);
        self.store.close();
    }

    /// Returns the reason why the copy takes no changes, if there is one.
    #[must_use]
    pub fn poisoned(&self) -> Option<String> {
        self.health.borrow().poisoned.clone()
    }

    async fn pass(&self, consistency: Consistency) -> Result<(), StoreError> {
        match consistency {
            Consistency::Eventual => Ok(()),
            Consistency::Consistent if planted::happens(planted::Fault::BarrierSkipped) => Ok(()),
            Consistency::Consistent => self.barrier.pass().await,
        }
    }
}

impl Drop for EtcdBackend {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for EtcdBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdBackend").field("copy", &self.store).finish_non_exhaustive()
    }
}

#[async_trait]
impl Backend for EtcdBackend {
    async fn read_encoded(&self, consistency: Consistency, id: &pb::Id) -> Result<EncodedResource, StoreError> {
        self.pass(consistency).await?;
        self.store.read_encoded(consistency, id).await
    }

    /// Commits an accepted batch even when the future is dropped.
    async fn commit(&self, batch: Batch) -> Result<Vec<Option<EncodedResource>>, StoreError> {
        self.store.admit(&batch)?;
        let fence = match &batch.held {
            None => None,
            Some(name) => Some(self.placements.fence(name).ok_or_else(|| StoreError::NotHeld(name.to_string()))?),
        };
        self.commits.commit(batch, fence).await
    }

    async fn members(&self) -> Result<Option<Members>, StoreError> {
        let members = self.placements.members().await;
        members.map(Some).map_err(|fault| StoreError::Unreachable(fault.to_string()))
    }

    fn reads_may_lag(&self) -> bool {
        true
    }

    async fn catch_up(&self) -> Result<(), StoreError> {
        self.barrier.pass().await
    }

    async fn list(&self, consistency: Consistency, query: &Query) -> Result<Vec<pb::Resource>, StoreError> {
        self.pass(consistency).await?;
        self.store.list(consistency, query).await
    }

    async fn scan(&self, query: &Query) -> Result<Box<dyn Cursor>, StoreError> {
        self.store.scan(query).await
    }

    async fn scan_copies(&self, query: &Query, request: CopyRequest) -> Result<Box<dyn CopyCursor>, StoreError> {
        self.store.scan_copies(query, request).await
    }

    async fn scan_part(&self, query: &Query, part: &ScanPart) -> Result<Box<dyn Cursor>, StoreError> {
        self.store.scan_part(query, part).await
    }

    async fn list_by_owner(&self, owner: &pb::Id) -> Result<Vec<pb::Resource>, StoreError> {
        self.barrier.pass().await?;
        self.store.list_by_owner(owner).await
    }

    async fn scan_owned(&self, owner: &pb::Id) -> Result<Box<dyn Cursor>, StoreError> {
        self.barrier.pass().await?;
        self.store.scan_owned(owner).await
    }

    async fn scan_referrers(&self, target: &ExpectedId, on_delete: OnDelete) -> Result<Box<dyn Cursor>, StoreError> {
        self.store.scan_referrers(target, on_delete).await
    }

    async fn watch_list(&self, query: &Query, after: Option<&ListKey>) -> Result<Box<dyn Watch>, StoreError> {
        self.barrier.pass().await?;
        self.store.watch_list(query, after).await
    }

    async fn open_changes(&self, query: &Query, part: &ScanPart, terms: &[Term]) -> Result<OpenedChanges, StoreError> {
        self.barrier.pass().await?;
        self.store.open_changes(query, part, terms).await
    }

    /// Follows a position of any server.
    async fn changes_after(
        &self,
        query: &Query,
        part: &ScanPart,
        terms: &[Term],
        position: Position,
    ) -> Result<Option<Box<dyn ChangeWatch>>, StoreError> {
        self.barrier.pass().await?;
        self.store.changes_after(query, part, terms, position).await
    }

    async fn keep(&self, query: &Query) -> Result<Box<dyn PastContent>, StoreError> {
        self.store.keep(query).await
    }

    async fn position_before(&self, time: Timestamp) -> Result<Option<Position>, StoreError> {
        self.store.position_before(time).await
    }

    async fn types(&self) -> Result<Vec<TypeKey>, StoreError> {
        self.store.types().await
    }

    async fn snapshot(&self) -> Result<Box<dyn Snapshot>, StoreError> {
        self.barrier.pass().await?;
        self.store.snapshot().await
    }

    fn newest_version(&self) -> u64 {
        self.store.newest_version()
    }

    fn store_id(&self) -> StoreId {
        self.store.id()
    }

    fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        let health = self.health.borrow().clone();
        Ok(Stats { health, ..self.store.stats().await? })
    }

    async fn usage(&self, limit: usize) -> Result<Usage, StoreError> {
        self.store.usage(limit).await
    }
}
