//! The caller of an RPC: its permissions, its consistency, and its connection.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, BuildHasherDefault, Hash, Hasher, RandomState},
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use mortise_plugin_host::{CallerClass, CallerId};
use mortise_resource::{
    Code, Error, Scope,
    authorizer::{AllowAll, Authorizer},
    pb, tenancy,
};
use mortise_store::Consistency;

use super::{
    commit_state::CommitState,
    origin::{Origin, Remote, Surface},
    reader::Reader,
    store_fault::store_fault,
};
use crate::core::Core;

/// The header with the version that the answer to a read must not be older than.
pub const AT_LEAST_HEADER: &str = "x-mortise-at-least";

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
    /// The plugin whose controller calls.
    pub controller_of: Option<Arc<str>>,
    /// The lease of the controller that calls, without which its changes are refused.
    pub held: Option<Arc<str>>,
    /// The version that the answer must not be older than, as the client wrote it.
    pub at_least: Option<Arc<str>>,
    /// The client that reads the answer; `None` if the answer never waits for it.
    pub reader: Option<Arc<Reader>>,
    /// The commit of the call.
    pub(crate) commit: CommitState,
}

/// Source of calls. Scarce things are shared fairly between sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Source(u64);

/// A map by source.
pub(crate) type SourceMap<V> = HashMap<Source, V, BuildHasherDefault<SourceHasher>>;

/// The hash of a source: its number, which is a hash under a random key already.
#[derive(Default)]
pub(crate) struct SourceHasher(u64);

impl Hasher for SourceHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

impl Source {
    /// Makes a source of an address or a name. Two values share a source with a chance of 1 in 2^64.
    pub fn from_key(what: impl Hash) -> Self {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(KEYS.hash_one(what))
    }

    /// Makes the source of an address. An IPv4 address in IPv6 is the IPv4 address, and the addresses of an IPv6 /64,
    /// which one client may use at will, are one source.
    pub fn from_address(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::from_key(ip),
            IpAddr::V6(ip) => Self::from_key(("/64", ip.to_bits() >> 64)),
        }
    }

    /// Returns the source that the shares of a caller are counted for: its credentials or, without any, its address,
    /// its user, or its name if it is a part of this server. `None` for the server itself.
    pub fn of_caller(caller: &dyn Authorizer, origin: Option<&Origin>) -> Option<Self> {
        match (caller.accessor(), caller.is_authenticated()) {
            ("", false) => Some(origin?.remote.source().unwrap_or_else(|| Self::from_key(caller.caller()))),
            ("", true) => Some(Self::from_key(caller.caller())),
            (accessor, _) => Some(Self::from_key(accessor)),
        }
    }

    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    #[cfg(test)]
    pub(crate) const fn of_number(number: u64) -> Self {
        Self(number)
    }
}

/// The queue of a caller for a scarce thing. All connections of a token's holder share a queue, and so do all callers
/// of an address without a token.
#[derive(Debug, Clone)]
pub(crate) struct QueueKey {
    /// Source that takes turns with other callers.
    pub(crate) holder: Source,
    /// Connection that takes turns with the holder's other connections.
    pub(super) connection: Source,
    /// Whether the caller has authenticated or is local, so that it may have what is reserved for such callers.
    pub(crate) is_known: bool,
    /// The client that may leave the share unread.
    pub(super) reader: Option<Arc<Reader>>,
}

impl Caller {
    /// Makes the caller of an authorizer.
    #[must_use]
    pub fn new(authorizer: Arc<dyn Authorizer>, consistency: Consistency) -> Self {
        let source = Source::default();
        Self {
            authorizer,
            consistency,
            source,
            origin: None,
            hook_of: None,
            controller_of: None,
            held: None,
            at_least: None,
            reader: None,
            commit: CommitState::default(),
        }
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

    /// Marks the caller as a controller of a plugin.
    #[must_use]
    pub fn as_controller_of(self, plugin: Arc<str>) -> Self {
        Self { controller_of: Some(plugin), ..self }
    }

    /// Makes each change depend on a lease ([`mortise_store::Batch::held`]).
    #[must_use]
    pub fn holding(self, held: Option<Arc<str>>) -> Self {
        Self { held, ..self }
    }

    /// Requires answers that are not older than a version.
    #[must_use]
    pub fn not_older_than(self, version: Option<&str>) -> Self {
        Self { at_least: version.map(Arc::from), ..self }
    }

    /// Refuses a read that would be older than the caller requires. Reads show every version that was answered before,
    /// so this fails only for versions that this server has never given.
    ///
    /// # Errors
    /// `InvalidArgument`: not a version. `FailedPrecondition`: a version that is not reached here.
    pub(crate) async fn check_at_least(&self, core: &Core) -> Result<(), Error> {
        let Some(wanted) = &self.at_least else { return Ok(()) };
        let version: u64 = wanted.parse().map_err(|_| {
            Error::invalid(format!(
                "{AT_LEAST_HEADER}: {wanted:?} is not a version; write the version of a resource, a decimal number"
            ))
        })?;
        if version > core.backend.newest_version() {
            // Another server of a shared store may have answered with it.
            core.backend.catch_up().await.map_err(|e| store_fault("failed to catch up", &e))?;
        }
        let newest = core.backend.newest_version();
        if version <= newest {
            return Ok(());
        }
        let text = format!(
            "{AT_LEAST_HEADER}: version {version} is not reached here, the newest is {newest}; use a version from an answer \
             of this server, since each server counts its own"
        );
        Err(Error::new(Code::FailedPrecondition, text))
    }

    /// Waits until scans show what the caller's consistency asks for; reads of one resource do so by themselves.
    ///
    /// # Errors
    /// `Unavailable`: the shared store behind this one gives no answer.
    pub(crate) async fn catch_up(&self, core: &Core) -> Result<(), Error> {
        match self.consistency {
            Consistency::Eventual => Ok(()),
            Consistency::Consistent => core.backend.catch_up().await.map_err(|e| store_fault("failed to catch up", &e)),
        }
    }

    /// Refuses to show a past version that is older than the caller requires.
    ///
    /// # Errors
    /// `FailedPrecondition`: it is older.
    pub(crate) fn check_shown(&self, version: u64) -> Result<(), Error> {
        let wanted = self.at_least.as_ref().and_then(|wanted| wanted.parse::<u64>().ok());
        match wanted.filter(|wanted| version < *wanted) {
            None => Ok(()),
            Some(wanted) => Err(Error::new(
                Code::FailedPrecondition,
                format!("at: version {version} is older than {AT_LEAST_HEADER} {wanted}; leave one of them out"),
            )),
        }
    }

    /// Sets the client that reads the answer.
    #[must_use]
    pub fn with_reader(self, reader: Option<Arc<Reader>>) -> Self {
        Self { reader, ..self }
    }

    /// Returns the queue of the caller.
    pub(crate) fn queue_key(&self) -> QueueKey {
        let origin = self.origin.as_deref();
        let is_local = origin.is_none_or(|origin| {
            matches!(origin.surface, Surface::Controller | Surface::Region) || matches!(origin.remote, Remote::User(_))
        });
        QueueKey {
            holder: Source::of_caller(&*self.authorizer, origin).unwrap_or(self.source),
            connection: self.source,
            is_known: is_local || self.authorizer.is_authenticated(),
            reader: self.reader.clone(),
        }
    }

    /// Returns the number that separates the caller's faults in plugins from those of others.
    pub(crate) fn number(&self) -> CallerId {
        let source = match self.authorizer.accessor() {
            "" => self.source,
            accessor => Source::from_key(accessor),
        };
        CallerId::new(source.number())
    }

    /// Returns the class of requests that may share an instance of a plugin with the caller's: those of the same
    /// credentials or, without any, of the same address or user, with the same rights, about the same tenancy.
    pub(crate) fn class(&self, tenancy: Option<pb::Tenancy>) -> CallerClass {
        CallerClass::new(self.queue_key().holder.number(), self.authorizer.fingerprint(), tenancy)
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
