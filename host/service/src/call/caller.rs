//! The caller of an RPC: its permissions, the consistency that it asks for, and where it is.

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
    /// The connection of the caller, or whatever else its calls come from.
    pub source: Source,
    /// Where the request came from; `None` for the host's own.
    pub origin: Option<Arc<Origin>>,
    /// The plugin whose hook asks, in the middle of a request. The hook holds an instance, so nothing is waited for.
    pub hook_of: Option<Arc<str>>,
}

/// Where calls come from: what is scarce is shared fairly between sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Source(u64);

impl Source {
    /// The source of this address or name; another value is another source, but for a chance of one in 2^64.
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

/// The queue of a caller where what is scarce is shared: a token's holder has one, whatever connections it comes by. Who
/// has no token has one for each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Turn {
    /// Who takes turns with others.
    pub(super) holder: Source,
    /// The connection, which takes turns with the holder's others.
    pub(super) connection: Source,
}

impl Caller {
    /// Makes the caller of an authorizer.
    #[must_use]
    pub fn new(authorizer: Arc<dyn Authorizer>, consistency: Consistency) -> Self {
        Self { authorizer, consistency, source: Source::default(), origin: None, hook_of: None }
    }

    /// Makes the host itself, who may do everything.
    #[must_use]
    pub fn host(consistency: Consistency) -> Self {
        Self::new(Arc::new(AllowAll), consistency)
    }

    /// Fills in units that a request for one resource left empty: the caller's, else `default`.
    pub(crate) fn fill(&self, scope: Scope, tenancy: &mut pb::Tenancy) {
        self.fill_own(scope, tenancy);
        scope.fill(tenancy);
    }

    /// Fills in the caller's own units. Its namespace is one of its partition, and means nothing in another.
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

    /// The caller of a request that came from somewhere.
    #[must_use]
    pub fn from(self, origin: Option<Arc<Origin>>) -> Self {
        Self { origin, ..self }
    }

    /// The caller, in the middle of a hook of a plugin.
    #[must_use]
    pub fn in_hook_of(self, plugin: Arc<str>) -> Self {
        Self { hook_of: Some(plugin), ..self }
    }

    /// The queue of the caller.
    pub(crate) fn turn(&self) -> Turn {
        let holder = match self.authorizer.accessor() {
            "" => self.source,
            accessor => Source::from_key(accessor),
        };
        Turn { holder, connection: self.source }
    }

    /// The caller, as plugins' faults are told apart by it.
    pub(crate) fn number(&self) -> CallerId {
        CallerId::new(self.turn().holder.number())
    }

    /// The caller, at a source.
    #[must_use]
    pub fn with_source(self, source: Source) -> Self {
        Self { source, ..self }
    }
}

/// A number for a caller, where callers are told apart.
pub(crate) fn caller_number(core: &Core, caller: &dyn Authorizer) -> Option<u64> {
    core.access().map(|_| Source::from_key(caller.caller()).number())
}
