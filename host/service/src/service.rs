//! The state that all RPCs share: the store, the registry, the limits, and the signal to stop.

use std::{borrow::Cow, sync::Arc};

use crate::{
    call::{audit::Call, caller::caller_number, caller_counts::CallerCounts, fair::FairPool, origin::Origin},
    core::{Core, options::Options},
    query::field_index::FieldIndexes,
    references::record_pass::RecordPasses,
    region::restarts::CopyRestarts,
    registry::Registry,
};
use arc_swap::ArcSwap;
use futures::FutureExt as _;
use mortise_acl::Access;
use mortise_audit::AuditLog;
use mortise_plugin_host::LowPriorityThreads;
use mortise_query::RecentlyDecoded;
use mortise_resource::{Error, authorizer::Authorizer};
use mortise_store::Backend;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Bytes of the pages that watches keep, together.
pub(crate) const VIEWS: usize = 128 << 20;

/// The resource service. Cheap to clone.
#[derive(Clone)]
pub struct ResourceService {
    pub(crate) core: Core,
    pub(crate) watches: Arc<Semaphore>,
    pub(crate) caller_watches: Arc<CallerCounts>,
    pub(crate) snapshots: FairPool,
    pub(crate) lists: FairPool,
    /// Indexes of fields that types declare.
    pub(crate) field_indexes: FieldIndexes,
    /// Places for deletions that reach many resources.
    pub(crate) large_deletions: Arc<Semaphore>,
    /// The same for who asks what they would do.
    pub(crate) large_shows: Arc<Semaphore>,
    /// Which types have records of what they refer to.
    pub(crate) record_passes: RecordPasses,
    /// What watches looked into lately.
    pub(crate) decoded: Arc<RecentlyDecoded>,
    /// KiB of the pages that watches keep.
    pub(crate) views: Arc<Semaphore>,
    /// Where what takes long is read: the rest of lists, and of the snapshots of watches.
    pub(crate) low_priority: Arc<LowPriorityThreads>,
    pub(crate) barriers: Barriers,
    /// Which copies of other regions have begun anew.
    pub(crate) copy_restarts: Arc<CopyRestarts>,
}

/// Asks to be told when every token and policy that was stored before is known.
pub(crate) type Barrier = oneshot::Sender<()>;

/// Where barriers are sent, and, until it is followed, where they arrive.
type Barriers = (mpsc::Sender<Barrier>, Arc<Mutex<Option<mpsc::Receiver<Barrier>>>>);

impl ResourceService {
    /// Makes a service over a store, with the types of a registry that may be swapped at any time.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>, registry: Arc<ArcSwap<Registry>>, options: Options) -> Self {
        let (barriers, arrive) = mpsc::channel(1);
        Self {
            watches: Arc::new(Semaphore::new(options.max_watches)),
            caller_watches: CallerCounts::new("watches", "service.caller_watches", options.caller_watches),
            snapshots: FairPool::new(options.max_snapshots, options.max_waiting),
            lists: FairPool::new(options.list_bytes, options.max_waiting),
            field_indexes: FieldIndexes::new(options.index_bytes),
            large_deletions: Arc::new(Semaphore::new(1)),
            large_shows: Arc::new(Semaphore::new(1)),
            record_passes: RecordPasses::default(),
            decoded: Arc::default(),
            views: Arc::new(Semaphore::new(VIEWS >> 10)),
            low_priority: Arc::default(),
            barriers: (barriers, Arc::new(Mutex::new(Some(arrive)))),
            copy_restarts: Arc::default(),
            core: Core::new(backend, registry, options),
        }
    }

    /// The registered types at this moment.
    #[must_use]
    pub fn types(&self) -> Arc<Registry> {
        self.core.types()
    }

    /// What is known of tokens and policies; `None` where everyone may do everything.
    #[must_use]
    pub fn access(&self) -> Option<&Arc<Access>> {
        self.core.access()
    }

    /// Bytes of a resource, at most.
    #[must_use]
    pub fn max_resource_bytes(&self) -> usize {
        self.core.options.max_resource_bytes
    }

    /// The record of who did what.
    #[must_use]
    pub fn audit(&self) -> Option<&AuditLog> {
        self.core.audit()
    }

    /// A number for a caller, where callers are told apart.
    #[must_use]
    pub fn caller_number(&self, caller: &dyn Authorizer) -> Option<u64> {
        caller_number(&self.core, caller)
    }

    /// The number of open watches of clients, and its limit.
    #[must_use]
    pub fn open_watches(&self) -> (usize, usize) {
        let max = self.core.options.max_watches;
        (max.saturating_sub(self.watches.available_permits()), max)
    }

    /// The store of the service.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.core.backend
    }

    /// The region of this server.
    #[must_use]
    pub fn region(&self) -> Option<&str> {
        self.core.region()
    }

    /// Begins a call of another service, which has no rates here.
    ///
    /// # Errors
    /// `Unavailable`: the audit log takes no records.
    pub async fn begin_call(
        &self,
        caller: &Arc<dyn Authorizer>,
        origin: Option<&Arc<Origin>>,
        method: Cow<'static, str>,
        changes: bool,
    ) -> Result<Call, Error> {
        Call::begin_unrated(&self.core, caller, origin, method, changes).await
    }

    /// The background tasks that are no controllers, to be started: the clean-up of tenancy units, and what follows the
    /// policies of regions. They end after [`ResourceService::stop`].
    pub fn background(&self) -> impl Future<Output = ()> + Send + use<> {
        let (cleanup, refresh) = (self.clone().run_tenancy_cleanup(), self.clone().run_region_refresh());
        async move { tokio::join!(cleanup, refresh) }.map(drop)
    }

    /// Ends open watches and background tasks. Calls in flight finish.
    pub fn stop(&self) {
        self.core.stop();
    }

    /// Resolves once the service stops.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + Sync + use<> {
        self.core.stopped()
    }
}
