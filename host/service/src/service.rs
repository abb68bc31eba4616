//! What the RPCs share: the store, the registry, the limits, and the signal to stop.

use std::{sync::Arc, time::Duration};

use crate::registry::Registry;
use arc_swap::ArcSwap;
use mortise_store::Backend;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};

/// How the service behaves. Part of config.toml.
#[derive(Debug, Clone)]
pub struct Options {
    /// Watches that may be open at once; one more is refused.
    pub max_watches: usize,
    /// Largest resource that hooks are asked about, bytes as [`mortise_store::limited_size`] counts them. That of the store,
    /// which judges what they make of it.
    pub max_resource_bytes: usize,
    /// How long after its first pass the reaper looks for children that were created meanwhile.
    pub second_pass: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_watches: 10_000, max_resource_bytes: 1 << 20, second_pass: Duration::from_secs(30) }
    }
}

/// The resource service. Cheap to clone.
#[derive(Clone)]
pub struct ResourceService {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) registry: Arc<ArcSwap<Registry>>,
    pub(crate) options: Arc<Options>,
    pub(crate) watches: Arc<Semaphore>,
    stop: Arc<watch::Sender<bool>>,
}

impl ResourceService {
    /// A service over a store, with the types of a registry that may be swapped at any time.
    #[must_use]
    pub fn new(backend: Arc<dyn Backend>, registry: Arc<ArcSwap<Registry>>, options: Options) -> Self {
        Self {
            backend,
            registry,
            watches: Arc::new(Semaphore::new(options.max_watches)),
            options: Arc::new(options),
            stop: Arc::new(watch::Sender::new(false)),
        }
    }

    /// The types, as of now.
    #[must_use]
    pub fn types(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// Watches of clients that are open, and how many there may be.
    #[must_use]
    pub fn open_watches(&self) -> (usize, usize) {
        let max = self.options.max_watches;
        (max.saturating_sub(self.watches.available_permits()), max)
    }

    /// The store behind it.
    #[must_use]
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Starts what runs in the background and is no controller: the emptying of tenancy units. It ends after
    /// [`ResourceService::stop`].
    #[must_use]
    pub fn background(&self) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        tasks.spawn(self.clone().run_drain());
        tasks
    }

    /// Ends open watches and what runs in the background. Calls in flight finish.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Resolves once the service stops.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stop = self.stop.subscribe();
        async move {
            // An error means that the service is gone, which is as good.
            let _ = stop.wait_for(|stopped| *stopped).await;
        }
    }
}
