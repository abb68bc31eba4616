//! A controller: which type, which reconciler, what wakes it, and how it is run.

use std::time::Duration;

use mortise_resource::{manifest, pb};

use crate::{
    Context, Error, Index, Kind, Outcome, Reconciler, Request, envelope::Envelope, kind::KindName, watch::Watched,
};

type Initialize = fn(&Context<'_>) -> Result<(), Error>;

/// A reconciler, the type whose resources it looks at, and what wakes it. Everything here can be said in a `static`.
pub struct Controller<R> {
    spec: Spec,
    reconciler: R,
    initialize: Option<Initialize>,
}

/// What can be said of a controller whatever its reconciler. Zero means the host's default.
struct Spec {
    name: &'static str,
    manages: KindName,
    watches: &'static [&'static dyn Watched],
    indexes: &'static [Index],
    each_server: bool,
    resync: Duration,
    parallel: u32,
    backoff: (Duration, Duration),
    only_if: &'static str,
}

impl<R: Reconciler> Controller<R> {
    /// A controller of a type, woken by changes of that type alone. The name is lower-case letters, digits and dashes,
    /// and unique in the plugin.
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

    /// Other types whose changes concern resources of the managed one; each type once.
    #[must_use]
    pub const fn watches(mut self, watches: &'static [&'static dyn Watched]) -> Self {
        self.spec.watches = watches;
        self
    }

    /// Ways to find resources of the managed type in the cache.
    #[must_use]
    pub const fn indexes(mut self, indexes: &'static [Index]) -> Self {
        self.spec.indexes = indexes;
        self
    }

    /// Runs on each server rather than on one of them. Such a controller should not write resources.
    #[must_use]
    pub const fn each_server(mut self) -> Self {
        self.spec.each_server = true;
        self
    }

    /// How long a resource whose reconcile ended well is left alone; 8 hours if not said.
    #[must_use]
    pub const fn resync(mut self, every: Duration) -> Self {
        self.spec.resync = every;
        self
    }

    /// Resources that are reconciled at once, each in an instance of its own, and never one of them twice; 1 if not
    /// said, at most 64.
    ///
    /// A write has answered when it is on the disk. With one resource at a time a controller that writes in each
    /// reconcile does as many as the disk has syncs, some hundred a second; writes of resources that are reconciled at
    /// once share syncs. It is right where what is done for one resource does not depend on what is done for others
    /// meanwhile: not for a controller that hands out numbers, or that writes one file about all of them.
    #[must_use]
    pub const fn parallel(mut self, resources: u32) -> Self {
        self.spec.parallel = resources;
        self
    }

    /// The first delay after an error, doubled by each further one, and the longest; 5 ms and 1,000 s if not said.
    #[must_use]
    pub const fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.spec.backoff = (first, longest);
        self
    }

    /// Runs only while the plugin's setting of that name is true. One that does not run costs nothing.
    #[must_use]
    pub const fn only_if(mut self, setting: &'static str) -> Self {
        self.spec.only_if = setting;
        self
    }

    /// Called before each start, with no cache to read from yet; nothing is reconciled before it has ended well. Needs
    /// `initializing` among the interfaces of [`crate::export!`].
    #[must_use]
    pub const fn initialize(mut self, initialize: fn(&Context<'_>) -> Result<(), Error>) -> Self {
        self.initialize = Some(initialize);
        self
    }
}

/// A [`Controller`] whatever its reconciler: what a [`crate::Plugin`]'s table holds.
#[doc(hidden)]
pub trait Controls: Sync {
    fn name(&self) -> &'static str;
    /// Appends it to a manifest.
    fn describe(&self, manifest: &mut Vec<u8>);
    fn reconcile(&self, ctx: &Context<'_>, id: pb::Id) -> Result<Outcome, Error>;
    fn map(&self, ctx: &Context<'_>, changed: Envelope) -> Result<Vec<pb::Id>, Error>;
    fn initialize(&self, ctx: &Context<'_>) -> Result<(), Error>;
}

impl<R: Reconciler> Controls for Controller<R> {
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
        /// The manifest's field.
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
