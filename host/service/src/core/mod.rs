//! The state that every room of the service gets: the store, the table of types, the options, the rates and the signal
//! to stop; and the fixed times ([`durations`]).
//!
//! A clone costs one counter. The table is swapped as a whole; a call takes it once with [`Shared::types`].

pub(crate) mod durations;
pub(crate) mod ids;
mod options;
mod rates;

use std::{ops::Deref, sync::Arc};

use arc_swap::ArcSwap;
use mortise_acl::Access;
use mortise_audit::AuditLog;
use mortise_resource::{EncodedResource, pb};
use mortise_store::{Backend, Consistency, StoreError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::registry::Registry;
pub use options::{Options, Placement};
pub(crate) use rates::Category;
use rates::RateLimits;
pub use rates::Rates;

/// Attempts of a change by the host that meets conflicts.
pub(crate) const MAX_CAS_ATTEMPTS: u32 = 10;

/// The shared state. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Core(Arc<Shared>);

/// The state behind a [`Core`].
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    /// The registered types; swapped as a whole.
    pub(crate) registry: Arc<ArcSwap<Registry>>,
    pub(crate) options: Options,
    pub(crate) rates: ArcSwap<RateLimits>,
    /// Number of changes that outlive their callers.
    pub(crate) remainders: watch::Sender<usize>,
    stop: CancellationToken,
}

impl Deref for Core {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Core {
    pub(crate) fn new(backend: Arc<dyn Backend>, registry: Arc<ArcSwap<Registry>>, options: Options) -> Self {
        let rates = ArcSwap::from_pointee(RateLimits::new(options.rates));
        let (remainders, stop) = (watch::Sender::new(0), CancellationToken::new());
        Self(Arc::new(Shared { backend, registry, options, rates, remainders, stop }))
    }
}

impl Shared {
    /// Changes the rates, unless they are these. Counting begins again, so a burst of one second passes.
    pub(crate) fn set_rates(&self, rates: Rates) {
        if self.rates.load().rates() != rates {
            self.rates.store(Arc::new(RateLimits::new(rates)));
        }
    }

    /// Returns the registered types at this moment.
    pub(crate) fn types(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// Returns the known tokens and policies; `None` where everyone may do everything.
    pub(crate) fn access(&self) -> Option<&Arc<Access>> {
        self.options.access.as_ref()
    }

    /// Returns the audit log, if the server has one.
    pub(crate) fn audit(&self) -> Option<&AuditLog> {
        self.options.audit.as_ref()
    }

    /// Returns the region of this server, if it has one.
    pub(crate) fn region(&self) -> Option<&str> {
        self.options.placement.region.as_deref()
    }

    /// Reads the resource with an id, in any GroupVersion. A uid in the id has to agree.
    pub(crate) async fn stored(&self, id: &pb::Id) -> Result<Option<EncodedResource>, StoreError> {
        match self.backend.read_encoded(Consistency::Consistent, id).await {
            Ok(stored) => Ok(Some(stored)),
            Err(StoreError::GroupVersionMismatch { stored, .. }) => Ok(Some(*stored)),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads as [`Shared::stored`] what the caller's commit expects to be unchanged, after a consistent read of its call.
    /// An old state fails the commit, and is good enough here; only an absence must be of now.
    pub(crate) async fn expected(&self, id: &pb::Id) -> Result<Option<EncodedResource>, StoreError> {
        match self.backend.read_encoded(Consistency::Eventual, id).await {
            Ok(stored) => Ok(Some(stored)),
            Err(_) => self.stored(id).await,
        }
    }

    /// Ends open watches and background tasks. Calls in flight finish.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Resolves once the service stops.
    pub(crate) fn stopped(&self) -> impl Future<Output = ()> + Send + Sync + use<> {
        self.stop.clone().cancelled_owned()
    }
}
