//! The resource service: its rooms, composed, and its methods besides the RPCs.

use std::{borrow::Cow, ops::Deref, sync::Arc};

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use mortise_acl::Access;
use mortise_audit::AuditLog;
use mortise_controller::Definition;
use mortise_resource::{Diagnostic, Error, authorizer::Authorizer, data, pb};
use mortise_store::Backend;
use tokio::time::Instant;

use crate::{
    access::AccessUpdates,
    access_upkeep::AccessUpkeep,
    call::{Call, Origin, WriterQueues},
    change::{Changes, UpgradeReport},
    core::{Core, Options, Rates},
    deletion::{Deletions, RemovalError, TenancyCleanup},
    lists::{Lists, TypeWatch},
    private_bytes::PrivateBytes,
    query::Queries,
    references::References,
    region::Replicas,
    registry::{Registry, ResourceType},
    rules::access_rules,
};

/// The resource service. Cheap to clone: each call has a clone.
#[derive(Clone)]
pub struct ResourceService(Arc<Rooms>);

/// The rooms of the service.
pub struct Rooms {
    pub(crate) core: Core,
    pub(crate) lists: Lists,
    pub(crate) references: References,
    pub(crate) replicas: Replicas,
    pub(crate) deletions: Deletions,
    pub(crate) queries: Queries,
    pub(crate) changes: Changes,
    pub(crate) access_updates: AccessUpdates,
    /// Queues of the writers of one resource.
    pub(crate) writers: WriterQueues,
    private_bytes: PrivateBytes,
}

impl Deref for ResourceService {
    type Target = Rooms;

    fn deref(&self) -> &Rooms {
        &self.0
    }
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
        Self(Arc::new(Rooms {
            queries: Queries::new(&lists),
            changes: Changes::new(references.clone(), deletions.clone(), private_bytes.clone(), core.clone()),
            replicas: Replicas::new(core.clone()),
            access_updates: AccessUpdates::new(core.clone()),
            writers: WriterQueues::default(),
            core,
            lists,
            references,
            deletions,
            private_bytes,
        }))
    }

    /// Returns the registered types at this moment.
    #[must_use]
    pub fn types(&self) -> Arc<Registry> {
        self.core.types()
    }

    /// Returns the known tokens and policies; `None` allows everything to everyone.
    #[must_use]
    pub fn access(&self) -> Option<&Arc<Access>> {
        self.core.access()
    }

    /// Notes the areas that the plugins of a registry ask about: rules may name them from now on, even after the plugin
    /// is gone. To be called before the registry serves.
    pub fn note_areas(&self, registry: &Registry) {
        if let Some(access) = self.core.access() {
            access.add_areas(access_rules::plugin_areas(registry));
        }
    }

    /// Checks the words of a policy. Returns warnings about words that name nothing now.
    ///
    /// # Errors
    /// `InvalidArgument`: a word has no meaning. Faults of the store.
    pub async fn check_policy(&self, policy: &data::Policy) -> Result<Vec<Diagnostic>, Error> {
        access_rules::check_policy_words(&self.core, policy).await
    }

    /// Returns the limit of a resource's bytes.
    #[must_use]
    pub fn max_resource_bytes(&self) -> usize {
        self.core.options.max_resource_bytes
    }

    /// Returns the audit log, if the server has one.
    #[must_use]
    pub fn audit(&self) -> Option<&AuditLog> {
        self.core.audit()
    }

    /// Asks lists and beginning watches that their clients do not read to give way to callers that wait. Returns
    /// whether any was asked ([`Reader::take_asked`](crate::Reader::take_asked)). To be called several times a second.
    #[must_use]
    pub fn press_unread(&self, now: Instant) -> bool {
        self.lists.press(now)
    }

    /// Returns the number of open watches of clients, and its limit.
    #[must_use]
    pub fn open_watches(&self) -> (usize, usize) {
        (self.lists.open_watches(), self.core.options.max_watches)
    }

    /// Returns the number of clients' open watches by group and kind of the watched type, sorted by these.
    #[must_use]
    pub fn watches_by_type(&self) -> Vec<((String, String), usize)> {
        self.lists.watches_by_type()
    }

    /// Returns the store of the service.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.core.backend
    }

    /// Changes the rates of requests; requests that were counted before do not count any more.
    pub fn set_rates(&self, rates: Rates) {
        self.core.set_rates(rates);
    }

    /// Returns the region of this server.
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

    /// Returns the background tasks that are not controllers: the clean-up of tenancy units, the refresh of regions
    /// after changes of policies, and the upkeep of tokens. They end after [`ResourceService::stop`].
    pub fn background(&self) -> impl Future<Output = ()> + Send + use<> {
        let cleanup = TenancyCleanup::new(&self.deletions, &self.replicas).run();
        let refresh = self.replicas.clone().run_refresh();
        let upkeep = AccessUpkeep::new(self.core.clone(), self.deletions.clone()).run();
        async move { tokio::join!(cleanup, refresh, upkeep) }.map(drop)
    }

    /// Returns the reaper, the controller that deletes the children of deleted resources. It retries a failed tombstone
    /// after 5 ms, doubled with each further failure up to 1,000 s.
    #[must_use]
    pub fn reaper(&self) -> Definition {
        self.deletions.reaper()
    }

    /// Returns the controller that checks owner references that may have become invalid.
    #[must_use]
    pub fn ownership(&self) -> Definition {
        self.deletions.ownership()
    }

    /// Reads every token and policy, and returns the task that keeps them current. The task ends after
    /// [`ResourceService::stop`].
    ///
    /// # Errors
    /// `Internal`: the store failed.
    pub async fn follow_access(&self) -> Result<impl Future<Output = ()> + Send + 'static, Error> {
        self.access_updates.follow().await
    }

    /// Watches a registered type: its snapshot, the end of the snapshot, and every change. A resource that is later
    /// written under another GroupVersion arrives as deleted.
    ///
    /// # Errors
    /// `InvalidArgument`: the type is not registered. `Internal`: the store failed.
    pub async fn watch_type(&self, name: &pb::Type) -> Result<TypeWatch, Error> {
        TypeWatch::open(&self.core, name).await
    }

    /// Upgrades and stores every resource of a type in an older schema version. Goes on after failures and reports at
    /// most `max_failures` of them.
    ///
    /// Reads the type in pages, as of the commit at which it begins. Concurrently written resources are newer, and stay
    /// as they are.
    ///
    /// # Errors
    /// Faults of the store only.
    pub async fn upgrade_stored(&self, kind: &Arc<ResourceType>, max_failures: usize) -> Result<UpgradeReport, Error> {
        self.changes.upgrade_stored(kind, max_failures).await
    }

    /// Deletes a resource on behalf of the host, in any stored version, without hooks and permissions. Marks a resource
    /// with finalizers instead. Returns whether the resource is gone.
    ///
    /// # Errors
    /// Faults of the store, a conflict in each of ten attempts, and blocking referrers.
    pub async fn delete_unchecked(&self, id: &pb::Id) -> Result<bool, RemovalError> {
        self.deletions.delete_unchecked(id).await
    }

    /// Returns the replicas of resources that other regions own.
    #[must_use]
    pub fn replicas(&self) -> &Replicas {
        &self.replicas
    }

    /// Returns the private bytes that plugins keep for single resources.
    #[must_use]
    pub fn private_bytes(&self) -> &PrivateBytes {
        &self.private_bytes
    }

    /// Ends open watches and background tasks. Calls in flight finish.
    pub fn stop(&self) {
        self.core.stop();
    }

    /// Resolves once the changes that outlived their callers have ended, with their records in the audit log.
    pub async fn changes_ended(&self) {
        let mut left = self.core.remainders.subscribe();
        // The sender lives as long as the service.
        let _ = left.wait_for(|number| *number == 0).await;
    }

    /// Resolves once the service stops.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + Sync + use<> {
        self.core.stopped()
    }
}
