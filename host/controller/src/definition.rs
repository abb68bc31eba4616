//! The definition of a controller: the type that it manages, the types that it watches, and its settings.

use std::{fmt, sync::Arc, time::Duration};

use mortise_resource::{backoff::Backoff, pb, types};

use crate::{
    cache::{ID, Index},
    durations::{
        DEFAULT_DRAIN_TIMEOUT, DEFAULT_RESYNC_INTERVAL, MAX_QUARANTINE_WAIT, MAX_RETRY_WAIT, MIN_QUARANTINE_WAIT,
        MIN_RESYNC_INTERVAL, MIN_RETRY_WAIT,
    },
    key::GroupKind,
    lease::Placement,
    mapper::Mapper,
    reconciler::Reconciler,
};

/// A watched type.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) resource_type: pb::Type,
    pub(crate) mapper: Arc<Mapper>,
    pub(crate) indexes: Vec<Index>,
}

/// A controller, to be registered with [`crate::Controllers::register`].
#[derive(Clone)]
pub struct Definition {
    pub(crate) name: Arc<str>,
    pub(crate) managed: pb::Type,
    pub(crate) indexes: Vec<Index>,
    pub(crate) reconciler: Arc<dyn Reconciler>,
    pub(crate) watched: Vec<Watched>,
    pub(crate) placement: Placement,
    pub(crate) backoff: Backoff,
    pub(crate) quarantine_backoff: Backoff,
    pub(crate) resync: Option<Duration>,
    pub(crate) parallel: usize,
    pub(crate) drain: Duration,
    pub(crate) self_wake_limit: u32,
}

/// The error of an invalid definition. The first two texts are Consul's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// A type is watched twice. Versions of one kind are one type: one watch delivers both.
    #[error("resource type {0:?} already has a configured watch")]
    WatchedTwice(String),
    /// Two indexes of one type share a name.
    #[error("Index with name {0:?} is already defined.")]
    IndexTwice(String),
    /// A mapper uses a missing index.
    #[error(
        "controller {controller:?} maps through index {index:?} of {resource_type}, which it does not have; add the index to the managed or watched type"
    )]
    NoIndex {
        /// The controller.
        controller: String,
        /// The type looked in.
        resource_type: String,
        /// The index.
        index: String,
    },
}

impl Definition {
    /// Makes a controller that watches only the managed type, reconciles one resource at a time, and resyncs within 8
    /// hours.
    pub fn new(name: impl Into<Arc<str>>, managed: pb::Type, reconciler: Arc<dyn Reconciler>) -> Self {
        Self {
            name: name.into(),
            managed,
            indexes: Vec::new(),
            reconciler,
            watched: Vec::new(),
            placement: Placement::default(),
            backoff: Backoff::new(MIN_RETRY_WAIT, MAX_RETRY_WAIT),
            quarantine_backoff: Backoff::new(MIN_QUARANTINE_WAIT, MAX_QUARANTINE_WAIT),
            resync: Some(DEFAULT_RESYNC_INTERVAL),
            parallel: 1,
            drain: DEFAULT_DRAIN_TIMEOUT,
            self_wake_limit: 10,
        }
    }

    /// Adds an index of the managed type.
    #[must_use]
    pub fn index(mut self, index: Index) -> Self {
        self.indexes.push(index);
        self
    }

    /// Watches another type; `mapper` turns its events into requests.
    #[must_use]
    pub fn watch(mut self, resource_type: pb::Type, mapper: Mapper, indexes: Vec<Index>) -> Self {
        self.watched.push(Watched { resource_type, mapper: Arc::new(mapper), indexes });
        self
    }

    /// Sets the servers on which the controller runs.
    #[must_use]
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Sets the waits after failures of one resource, and of one mapping.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the waits of a resource after a reconcile or a mapping of it ended with [`crate::ReconcileError::fault`].
    #[must_use]
    pub fn quarantine_backoff(mut self, waits: Backoff) -> Self {
        self.quarantine_backoff = waits;
        self
    }

    /// Sets the resync interval: a resource without changes is reconciled after 0.8 to 1.0 of it; `None` for never.
    /// Less than a second counts as a second.
    #[must_use]
    pub fn resync(mut self, interval: Option<Duration>) -> Self {
        self.resync = interval.map(|interval| interval.max(MIN_RESYNC_INTERVAL));
        self
    }

    /// Sets the number of resources that may be reconciled at once; at least one.
    #[must_use]
    pub fn parallel(mut self, keys: usize) -> Self {
        self.parallel = keys.max(1);
        self
    }

    /// Sets the time that running reconciles have when the run ends, before they are dropped. Code that blocks its
    /// thread cannot be dropped; the end of the run waits for it without a limit.
    #[must_use]
    pub fn drain(mut self, deadline: Duration) -> Self {
        self.drain = deadline;
        self
    }

    /// Sets the longest chain of own writes that cause each other at full speed. Each further link waits as after a
    /// failure: the first [`Backoff::base`], then twice as long each time.
    #[must_use]
    pub fn self_wake_limit(mut self, limit: u32) -> Self {
        self.self_wake_limit = limit;
        self
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The managed type.
    #[must_use]
    pub fn managed(&self) -> &pb::Type {
        &self.managed
    }

    /// Checks the definition by itself.
    ///
    /// # Errors
    /// The first fault that is found.
    pub fn check(&self) -> Result<(), DefinitionError> {
        for (n, watched) in self.watched.iter().enumerate() {
            let group_kind = GroupKind::from(&watched.resource_type);
            if self.watched.iter().take(n).any(|other| group_kind.matches(&other.resource_type)) {
                return Err(DefinitionError::WatchedTwice(types::gvk(&watched.resource_type)));
            }
        }
        for (resource_type, indexes) in self.types() {
            let mut names: Vec<&str> = vec![ID];
            // The managed type may be watched as well; its indexes add up.
            let same = self.types().filter(|(other, _)| GroupKind::from(resource_type).matches(other));
            let all = same.flat_map(|(_, indexes)| indexes);
            for index in if indexes.is_empty() { None } else { Some(all) }.into_iter().flatten() {
                if names.contains(&&*index.name) {
                    return Err(DefinitionError::IndexTwice(index.name.to_string()));
                }
                names.push(&index.name);
            }
        }
        self.watched.iter().try_for_each(|watched| self.check_mapper(&watched.mapper))
    }

    /// A mapper through an index needs that index.
    fn check_mapper(&self, mapper: &Mapper) -> Result<(), DefinitionError> {
        let Mapper::Index { kind: resource_type, index, .. } = mapper else { return Ok(()) };
        let mut indexes = self.types().filter(|(t, _)| GroupKind::from(resource_type).matches(t)).peekable();
        let id = index == ID && indexes.peek().is_some();
        if id || indexes.flat_map(|(_, i)| i).any(|known| *known.name == **index) {
            return Ok(());
        }
        let (controller, index) = (self.name.to_string(), index.clone());
        Err(DefinitionError::NoIndex { controller, resource_type: types::gvk(resource_type), index })
    }

    /// Every type that is cached, with its indexes; the managed one first.
    pub(crate) fn types(&self) -> impl Iterator<Item = (&pb::Type, &[Index])> {
        let watched = self.watched.iter().map(|watched| (&watched.resource_type, watched.indexes.as_slice()));
        std::iter::once((&self.managed, self.indexes.as_slice())).chain(watched)
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.name)
    }
}

impl fmt::Display for Definition {
    /// Writes the definition in Consul's form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watched: Vec<String> = self.watched.iter().map(|watched| types::gvk(&watched.resource_type)).collect();
        write!(
            f,
            "<Controller managed_type={}, watched_types=[{}], backoff=<base={}, max={}>, placement={}>",
            types::gvk(&self.managed),
            watched.join(", "),
            GoDuration(self.backoff.base()),
            GoDuration(self.backoff.max()),
            self.placement
        )
    }
}

/// A duration as Go writes it: `5ms`, `1.5s`, `1h0m0s`.
struct GoDuration(Duration);

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        if seconds == 0 {
            return write!(f, "{:?}", self.0);
        }
        if seconds >= 3600 {
            write!(f, "{}h", seconds / 3600)?;
        }
        if seconds >= 60 {
            write!(f, "{}m", seconds / 60 % 60)?;
        }
        let rest = Duration::new(seconds % 60, self.0.subsec_nanos());
        write!(f, "{}s", rest.as_secs_f64())
    }
}
