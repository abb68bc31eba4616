//! The resource service: its rooms, composed, and its methods besides the RPCs.

use std::{borrow::Cow, sync::Arc};

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use mortise_acl::Access;
use mortise_audit::AuditLog;
use mortise_controller::Definition;
use mortise_resource::{Error, authorizer::Authorizer, pb};
use mortise_store::Backend;

use crate::{
    access::AccessUpdates,
    call::{Call, Origin, caller_number},
    change::{Changes, UpgradeReport},
    core::{Core, Options},
    deletion::{Deletions, RemovalError, TenancyCleanup},
    lists::{Lists, TypeWatch},
    private_bytes::PrivateBytes,
    query::Queries,
    references::References,
    region::Regions,
    registry::{Registry, ResourceType},
};

/// The resource service. Cheap to clone.
#[derive(Clone)]
pub struct ResourceService {
    pub(crate) core: Core,
    pub(crate) lists: Lists,
    pub(crate) references: References,
    pub(crate) regions: Regions,
    pub(crate) deletions: Deletions,
    pub(crate) queries: Queries,
    pub(crate) changes: Changes,
    pub(crate) access_updates: AccessUpdates,
    private_bytes: PrivateBytes,
}

impl ResourceService {
    /// Makes a service over a store, with the types of a registry that may be swapped at any time.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>, registry: Arc<ArcSwap<Registry>>, options: Options) -> Self {
        let core = Core::new(backend, registry, options);
        let lists = Lists::new(core.clone());
        let references = References::new(core.clone());
        let deletions = Deletions::new(core.clone(), references.clone());
        let private_bytes = PrivateBytes::new(core.clone(), deletions.clone());
        Self {
            queries: Queries::new(&lists),
            changes: Changes::new(references.clone(), deletions.clone(), private_bytes.clone(), core.clone()),
            regions: Regions::new(core.clone()),
            access_updates: AccessUpdates::new(core.clone()),
            core,
            lists,
            references,
            deletions,
            private_bytes,
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
        (self.lists.open_watches(), self.core.options.max_watches)
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
        let cleanup = TenancyCleanup::new(&self.deletions, &self.regions).run();
        let refresh = self.regions.clone().run_refresh();
        async move { tokio::join!(cleanup, refresh) }.map(drop)
    }

    /// The reaper as a controller of tombstones. A failure is tried again after 5 ms, then 10 ms, and so on.
    #[must_use]
    pub fn reaper(&self) -> Definition {
        self.deletions.reaper()
    }

    /// The controller that looks at owner references which may not hold.
    #[must_use]
    pub fn ownership(&self) -> Definition {
        self.deletions.ownership()
    }

    /// Reads every token and policy, and answers the task that keeps them as they are stored. It ends after
    /// [`ResourceService::stop`].
    ///
    /// # Errors
    /// `Internal`: the store failed.
    pub async fn follow_access(&self) -> Result<impl Future<Output = ()> + Send + 'static, Error> {
        self.access_updates.follow().await
    }

    /// Watches a registered type: its snapshot, the end of that, and every change. A resource that is then written
    /// under another GroupVersion arrives as deleted.
    ///
    /// # Errors
    /// `InvalidArgument`: the type is not registered. `Internal`: the store failed.
    pub async fn watch_type(&self, name: &pb::Type) -> Result<TypeWatch, Error> {
        TypeWatch::open(&self.core, name).await
    }

    /// Upgrades and stores every resource of a type that is stored in an older schema version. Goes on after failures
    /// and reports at most `max_failures` of them.
    ///
    /// Reads the type in pages, as of the commit at which it begins. Resources that are written concurrently are newer
    /// and are left alone.
    ///
    /// # Errors
    /// Faults of the store only.
    pub async fn upgrade_stored(&self, kind: &Arc<ResourceType>, max_failures: usize) -> Result<UpgradeReport, Error> {
        self.changes.upgrade_stored(kind, max_failures).await
    }

    /// Deletes a resource on behalf of the host, in whatever version is stored, without hooks and permissions. Marks a
    /// resource that has finalizers instead. Returns whether the resource is gone.
    ///
    /// # Errors
    /// Faults of the store, a conflict in each of ten attempts, and what refers to the resource and blocks.
    pub async fn delete_unchecked(&self, id: &pb::Id) -> Result<bool, RemovalError> {
        self.deletions.delete_unchecked(id).await
    }

    /// Replicas of resources that other regions own.
    #[must_use]
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Bytes that plugins keep for single resources.
    #[must_use]
    pub fn private_bytes(&self) -> &PrivateBytes {
        &self.private_bytes
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
