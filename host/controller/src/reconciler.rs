//! The code that a controller runs, and its context.

use std::sync::Arc;

use async_trait::async_trait;
use mortise_resource::pb;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::Cache,
    loop_detection::OwnWrites,
    request::{Outcome, ReconcileError, Request},
};

/// Reconciles resources of one type. A panic in any function is an error with the text `panic [recovered]: …`.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// Reconciles one resource, which may be deleted. There is one call at a time for a key, and by default one at a
    /// time for the controller; changes between two calls may be seen as one.
    ///
    /// # Errors
    /// Any error. The resource is reconciled again after a wait that doubles with each failure in a row.
    async fn reconcile(&self, context: &Context, request: Request) -> Result<Outcome, ReconcileError>;

    /// Called first in each run, before anything is watched; the context's cache has no type.
    ///
    /// # Errors
    /// An error ends the run, which begins again after a wait.
    async fn initialize(&self, _context: &Context) -> Result<(), ReconcileError> {
        Ok(())
    }

    /// Called when the run has its cache, still empty, and watches nothing yet.
    async fn notify_start(&self, _context: &Context) {}

    /// Called when every task of a run has ended. It may take as long as the drain deadline.
    async fn notify_stop(&self, _context: &Context) {}
}

/// The context of a reconcile or of a mapping: its run, and its place in a chain of own writes. Cheap to clone, so that
/// it can be passed to the code that writes for the reconciler.
#[derive(Clone)]
pub struct Context {
    pub(crate) run: Arc<RunContext>,
    /// Length of the chain of own writes that led here; see [`crate::loop_detection`].
    pub(crate) chain: u32,
}

/// The part that all contexts of a run share.
pub(crate) struct RunContext {
    pub(crate) name: Arc<str>,
    pub(crate) managed: pb::Type,
    pub(crate) cache: Arc<Cache>,
    pub(crate) ending: CancellationToken,
    pub(crate) writes: Arc<OwnWrites>,
}

impl Context {
    /// Name of the controller.
    #[must_use]
    pub fn controller(&self) -> &str {
        &self.run.name
    }

    /// The type that the controller manages.
    #[must_use]
    pub fn managed(&self) -> &pb::Type {
        &self.run.managed
    }

    /// The resources that the run's watches have seen so far. A write shows up here when its event arrives, not before.
    #[must_use]
    pub fn cache(&self) -> &Arc<Cache> {
        &self.run.cache
    }

    /// Waits until the run is ending. Calls that still work then are dropped at the drain deadline.
    pub async fn cancelled(&self) {
        self.run.ending.cancelled().await;
    }

    /// Whether the run is ending.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.run.ending.is_cancelled()
    }

    /// Records that this call wrote a resource or its status: the id, and the stored version. It must be called before
    /// the call returns; otherwise a controller that wakes itself for ever is not detected.
    pub fn wrote(&self, id: &pb::Id, version: &str) {
        self.run.writes.wrote(id, version, self.chain);
    }

    /// Records that this call deleted a resource: the id, with its uid. It must be called as early as
    /// [`Context::wrote`].
    pub fn deleted(&self, id: &pb::Id) {
        self.run.writes.deleted(id, self.chain);
    }
}
