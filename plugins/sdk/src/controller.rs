//! Controllers: the managed type, the reconciler, the watches, and options for running it.

use std::time::Duration;

use mortise_resource::{manifest, pb};

use crate::{
    Context, Error, Index, Kind, Outcome, Reconciler, Request, envelope::Envelope, kind::KindName, watch::AnyWatch,
};

type Initialize = fn(&Context<'_>) -> Result<(), Error>;

/// A reconciler, the type of its resources, and the changes that wake it. All of it can be written in a `static`.
pub struct Controller<R> {
    spec: Spec,
    reconciler: R,
    initialize: Option<Initialize>,
}

/// Declaration of a controller apart from its reconciler. Zero means the host's default.
struct Spec {
    name: &'static str,
    manages: KindName,
    watches: &'static [&'static dyn AnyWatch],
    indexes: &'static [Index],
    each_server: bool,
    resync: Duration,
    parallel: u32,
    backoff: (Duration, Duration),
    only_if: &'static str,
}

impl<R: Reconciler> Controller<R> {
    /// Makes a controller of a type, woken by changes of that type alone. The name is lower-case letters, digits and
    /// dashes, and unique in the plugin.
    #[must_use]
    pub const fn new(name: &'static str, manages: Kind<R::Managed>, reconciler: R) -> Self {
        let spec = Spec {
            name,
            manages: manages.name(),
            watches: &[],
            indexes: &[],
            each_server: false,
            resync: Duration::ZERO,
            parallel: 0,
            backoff: (Duration::ZERO, Duration::ZERO),
            only_if: "",
        };
        Self { spec, reconciler, initialize: None }
    }

    /// Sets the other types whose changes wake the controller; each type once.
    #[must_use]
    pub const fn watches(mut self, watches: &'static [&'static dyn AnyWatch]) -> Self {
        self.spec.watches = watches;
        self
    }

    /// Sets the indexes of the managed type in the cache.
    #[must_use]
    pub const fn indexes(mut self, indexes: &'static [Index]) -> Self {
        self.spec.indexes = indexes;
        self
    }

    /// Runs the controller on each server rather than on one of them. Such a controller should not write resources.
    #[must_use]
    pub const fn each_server(mut self) -> Self {
        self.spec.each_server = true;
        self
    }

    /// Sets the time after a successful reconcile until the next one without a change; the default is 8 hours.
    #[must_use]
    pub const fn resync(mut self, every: Duration) -> Self {
        self.spec.resync = every;
        self
    }

    /// Sets the number of resources that are reconciled at once, each in an instance of its own, and never one of them
    /// twice; the default is 1, at most 64.
    ///
    /// A write has answered when it is on the disk. With one resource at a time a controller that writes in each
    /// reconcile does as many as the disk has syncs, some hundred a second; writes of parallel reconciles share syncs.
    /// Use more than 1 only if the work for one resource does not depend on simultaneous work for others: not for a
    /// controller that hands out numbers, or that writes one file about all of them.
    #[must_use]
    pub const fn parallel(mut self, resources: u32) -> Self {
        self.spec.parallel = resources;
        self
    }

    /// Sets the first delay after an error, which each further error doubles, and the longest; the defaults are 5 ms
    /// and 1,000 s.
    #[must_use]
    pub const fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.spec.backoff = (first, longest);
        self
    }

    /// Runs the controller only while the plugin's setting of that name is true. A controller that does not run costs
    /// nothing.
    #[must_use]
    pub const fn only_if(mut self, setting: &'static str) -> Self {
        self.spec.only_if = setting;
        self
    }

    /// Sets a function to call before each start, while the cache is still empty; reconciles begin only after it has
    /// succeeded. Needs `initializing` among the interfaces of [`crate::export!`].
    #[must_use]
    pub const fn initialize(mut self, initialize: fn(&Context<'_>) -> Result<(), Error>) -> Self {
        self.initialize = Some(initialize);
        self
    }
}

/// A [`Controller`] of any reconciler: an entry of a [`crate::Plugin`]'s table.
#[doc(hidden)]
pub trait AnyController: Sync {
    fn name(&self) -> &'static str;
    /// Appends the controller to a manifest.
    fn describe(&self, manifest: &mut Vec<u8>);
    fn reconcile(&self, ctx: &Context<'_>, id: pb::Id) -> Result<Outcome, Error>;
    fn map(&self, ctx: &Context<'_>, changed: Envelope) -> Result<Vec<pb::Id>, Error>;
    fn initialize(&self, ctx: &Context<'_>) -> Result<(), Error>;
}

impl<R: Reconciler> AnyController for Controller<R> {
    fn name(&self) -> &'static str {
        self.spec.name
    }

    fn describe(&self, manifest: &mut Vec<u8>) {
        self.spec.describe(self.initialize.is_some(), manifest);
    }

    fn reconcile(&self, ctx: &Context<'_>, id: pb::Id) -> Result<Outcome, Error> {
        self.reconciler.reconcile(ctx, &Request::new(id))
    }

    fn map(&self, ctx: &Context<'_>, changed: Envelope) -> Result<Vec<pb::Id>, Error> {
        let watch = changed.of().and_then(|of| self.spec.watches.iter().find(|watch| watch.is(of)));
        match watch {
            Some(watch) => watch.map(ctx, changed),
            None => Err(format!("controller {} does not watch that type", self.spec.name).into()),
        }
    }

    fn initialize(&self, ctx: &Context<'_>) -> Result<(), Error> {
        self.initialize.map_or(Ok(()), |initialize| initialize(ctx))
    }
}

impl Spec {
    fn describe(&self, initializes: bool, manifest: &mut Vec<u8>) {
        /// Number of the manifest's field.
        const CONTROLLERS: u32 = 7;
        let placement = if self.each_server { manifest::Placement::EachServer } else { manifest::Placement::Singleton };
        let controller = manifest::Controller {
            name: self.name.to_owned(),
            manages: Some(self.manages.describe()),
            watches: self.watches.iter().map(|watch| watch.describe()).collect(),
            indexes: self.indexes.iter().map(Index::describe).collect(),
            placement: placement.into(),
            resync_ms: millis(self.resync),
            parallel: self.parallel,
            initializes,
            backoff_base_ms: millis(self.backoff.0),
            backoff_max_ms: millis(self.backoff.1),
            only_if: self.only_if.to_owned(),
        };
        prost::encoding::message::encode(CONTROLLERS, &controller, manifest);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
