//! The caller of an RPC: its permissions, its consistency, and its connection.

use std::{
    hash::{BuildHasher as _, Hash, RandomState},
    sync::{Arc, LazyLock},
};

use mortise_plugin_host::CallerId;
use mortise_resource::{
    Scope,
    authorizer::{AllowAll, Authorizer},
    pb, tenancy,
};
use mortise_store::Consistency;

use super::origin::Origin;
use crate::core::Core;

/// The caller of one RPC.
#[derive(Clone)]
pub struct Caller {
    /// The permissions of the caller.
    pub authorizer: Arc<dyn Authorizer>,
    /// The consistency that the request's metadata asks for; Read and List honour it.
    pub consistency: Consistency,
    /// The caller's connection, or another source of its calls.
    pub source: Source,
    /// Origin of the request; `None` for the host's own.
    pub origin: Option<Arc<Origin>>,
    /// The plugin whose hook calls in the middle of a request. The hook holds an instance, so such a call never waits.
    pub hook_of: Option<Arc<str>>,
}

/// Source of calls. Scarce things are shared fairly between sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Source(u64);

impl Source {
    /// Makes a source of an address or a name. Two values share a source with a chance of 1 in 2^64.
    pub fn from_key(what: impl Hash) -> Self {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(KEYS.hash_one(what))
    }

    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    #[cfg(test)]
    pub(crate) const fn of_number(number: u64) -> Self {
        Self(number)
    }
}

/// The queue of a caller for a scarce thing. All connections of a token's holder share a queue; a connection without a
/// token has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct QueueKey {
    /// Source that takes turns with other callers.
    pub(crate) holder: Source,
    /// Connection that takes turns with the holder's other connections.
    pub(super) connection: Source,
}

impl Caller {
    /// Makes the caller of an authorizer.
    #[must_use]
    pub fn new(authorizer: Arc<dyn Authorizer>, consistency: Consistency) -> Self {
        Self { authorizer, consistency, source: Source::default(), origin: None, hook_of: None }
    }

    /// Makes the host itself, with all permissions.
    #[must_use]
    pub fn host(consistency: Consistency) -> Self {
        Self::new(Arc::new(AllowAll), consistency)
    }

    /// Fills in units that a request for one resource left empty, by the caller's units, else by `default`.
    pub(crate) fn fill(&self, scope: Scope, tenancy: &mut pb::Tenancy) {
        self.fill_own(scope, tenancy);
        scope.fill(tenancy);
    }

    /// Fills in the caller's own units. Its namespace belongs to its own partition, and is not used in another one.
    pub(crate) fn fill_own(&self, scope: Scope, tenancy: &mut pb::Tenancy) {
        let Some(own) = self.authorizer.default_tenancy() else { return };
        if matches!(scope, Scope::Cluster | Scope::Undefined) {
            return;
        }
        let or_default = |unit: &str| if unit.is_empty() { tenancy::DEFAULT.to_owned() } else { unit.to_owned() };
        if tenancy.partition.is_empty() {
            tenancy.partition = or_default(&own.partition);
        }
        if scope == Scope::Namespace && tenancy.namespace.is_empty() && tenancy.partition == or_default(&own.partition)
        {
            tenancy.namespace = or_default(&own.namespace);
        }
    }

    /// Sets the origin of the caller's request.
    #[must_use]
    pub fn from(self, origin: Option<Arc<Origin>>) -> Self {
        Self { origin, ..self }
    }

    /// Marks the caller as a plugin's hook in the middle of a request.
    #[must_use]
    pub fn in_hook_of(self, plugin: Arc<str>) -> Self {
        Self { hook_of: Some(plugin), ..self }
    }

    /// Returns the queue of the caller.
    pub(crate) fn queue_key(&self) -> QueueKey {
        let holder = match self.authorizer.accessor() {
            "" => self.source,
            accessor => Source::from_key(accessor),
        };
        QueueKey { holder, connection: self.source }
    }

    /// Returns the number that separates the caller's faults in plugins from those of others.
    pub(crate) fn number(&self) -> CallerId {
        CallerId::new(self.queue_key().holder.number())
    }

    /// Sets the caller's source.
    #[must_use]
    pub fn with_source(self, source: Source) -> Self {
        Self { source, ..self }
    }
}

/// Returns a number for a caller; `None` where all callers count as one, since there are no tokens.
pub(crate) fn caller_number(core: &Core, caller: &dyn Authorizer) -> Option<u64> {
    core.access().map(|_| Source::from_key(caller.caller()).number())
}
