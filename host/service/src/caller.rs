//! The caller of an RPC: its permissions, the consistency that it asks for, and where it is.

use std::{
    hash::{BuildHasher as _, Hash, RandomState},
    sync::{Arc, LazyLock},
};

use mortise_resource::authorizer::{AllowAll, Authorizer};
use mortise_store::Consistency;

/// The caller of one RPC.
#[derive(Clone)]
pub struct Caller {
    /// The permissions of the caller.
    pub authorizer: Arc<dyn Authorizer>,
    /// The consistency that the request's metadata asks for; Read and List honour it.
    pub consistency: Consistency,
    /// The connection of the caller, or whatever else its calls come from.
    pub source: Source,
}

/// Where calls come from: what is scarce is shared fairly between sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Source(u64);

impl Source {
    /// The source of this address or name; another value is another source, but for a chance of one in 2^64.
    pub fn of(what: impl Hash) -> Self {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(KEYS.hash_one(what))
    }

    #[cfg(test)]
    pub(crate) const fn of_number(number: u64) -> Self {
        Self(number)
    }
}

impl Caller {
    /// Makes the caller without a token, who may do everything while there is no access control.
    #[must_use]
    pub fn anonymous(consistency: Consistency) -> Self {
        Self { authorizer: Arc::new(AllowAll), consistency, source: Source::default() }
    }

    /// The caller, at a source.
    #[must_use]
    pub fn at(self, source: Source) -> Self {
        Self { source, ..self }
    }
}
