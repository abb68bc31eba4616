//! The state that all RPCs share: the store, the registry, the limits, and the signal to stop.

use std::sync::Arc;

use crate::{
    call::{
        caller::{Caller, Source},
        caller_counts::CallerCounts,
        fair::FairPool,
    },
    core::{
        options::Options,
        rates::{Category, RateLimits},
    },
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
use tokio_util::sync::CancellationToken;

/// Bytes of the pages that watches keep, together.
pub(crate) const VIEWS: usize = 128 << 20;

/// The resource service. Cheap to clone.
#[derive(Clone)]
pub struct ResourceService {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) registry: Arc<ArcSwap<Registry>>,
    pub(crate) options: Arc<Options>,
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
    pub(crate) rates: Arc<RateLimits>,
    pub(crate) barriers: Barriers,
    /// Which copies of other regions have begun anew.
    pub(crate) copy_restarts: Arc<CopyRestarts>,
    stop: CancellationToken,
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
            backend,
            registry,
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
            rates: Arc::new(RateLimits::new(options.rates)),
            options: Arc::new(options),
            barriers: (barriers, Arc::new(Mutex::new(Some(arrive)))),
            copy_restarts: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    /// The registered types at this moment.
    #[must_use]
    pub fn types(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// What is known of tokens and policies; `None` where everyone may do everything.
    #[must_use]
    pub fn access(&self) -> Option<&Arc<Access>> {
        self.options.access.as_ref()
    }

    /// Bytes of a resource, at most.
    #[must_use]
    pub fn max_resource_bytes(&self) -> usize {
        self.options.max_resource_bytes
    }

    /// The record of who did what.
    #[must_use]
    pub fn audit(&self) -> Option<&AuditLog> {
        self.options.audit.as_ref()
    }

    /// Counts a request of a caller.
    ///
    /// # Errors
    /// `ResourceExhausted`: too many a second, with the time to wait.
    pub(crate) fn check_rate(&self, caller: &Caller, category: Category) -> Result<(), Error> {
        self.rates.check(category, self.caller_number(&*caller.authorizer))
    }

    /// A number for a caller, where callers are told apart.
    #[must_use]
    pub fn caller_number(&self, caller: &dyn Authorizer) -> Option<u64> {
        self.access().map(|_| Source::of(caller.caller()).number())
    }

    /// The number of open watches of clients, and its limit.
    #[must_use]
    pub fn open_watches(&self) -> (usize, usize) {
        let max = self.options.max_watches;
        (max.saturating_sub(self.watches.available_permits()), max)
    }

    /// The store of the service.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// The background tasks that are no controllers, to be started: the clean-up of tenancy units, and what follows the
    /// policies of regions. They end after [`ResourceService::stop`].
    pub fn background(&self) -> impl Future<Output = ()> + Send + use<> {
        let (cleanup, refresh) = (self.clone().run_tenancy_cleanup(), self.clone().run_region_refresh());
        async move { tokio::join!(cleanup, refresh) }.map(drop)
    }

    /// Ends open watches and background tasks. Calls in flight finish.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Resolves once the service stops.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + Sync + use<> {
        self.stop.clone().cancelled_owned()
    }
}
