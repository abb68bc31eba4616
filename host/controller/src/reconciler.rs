//! The code that a controller runs, and what it is given.

use std::sync::Arc;

use async_trait::async_trait;
use mortise_resource::pb;

use crate::{
    cache::Cache,
    cause::Writes,
    latch::Latch,
    request::{Outcome, ReconcileError, Request},
};

/// Brings resources of one type in order. A panic anywhere in here is an error with the text `panic [recovered]: …`.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// Looks at one resource and does what it needs. Never called twice at once for one key, and by default never twice
    /// at once at all; changes between two calls may be seen as one. Deleted resources come too.
    ///
    /// # Errors
    /// Whatever went wrong. The resource is reconciled again after a wait that doubles with each failure in a row.
    async fn reconcile(&self, context: &Context, request: Request) -> Result<Outcome, ReconcileError>;

    /// Called first in each run, before anything is watched; its cache knows no type.
    ///
    /// # Errors
    /// End the run, which is tried again after a while.
    async fn initialize(&self, _context: &Context) -> Result<(), ReconcileError> {
        Ok(())
    }

    /// Called when the run's cache is there, still empty, and nothing is watched yet.
    async fn notify_start(&self, _context: &Context) {}

    /// Called when everything of a run has stopped. Has as long as the drain deadline.
    async fn notify_stop(&self, _context: &Context) {}
}

/// What a run knows, for those that act in its name. Cheap to clone; hand it to whoever writes on the reconciler's behalf.
#[derive(Clone)]
pub struct Context {
    pub(crate) run: Arc<Shared>,
    /// Length of the chain of own writes that led here; see [`crate::cause`].
    pub(crate) chain: u32,
}

/// What all contexts of a run share.
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    pub(crate) managed: pb::Type,
    pub(crate) cache: Arc<Cache>,
    pub(crate) ending: Latch,
    pub(crate) writes: Arc<Writes>,
}

impl Context {
    /// The controller's name.
    #[must_use]
    pub fn controller(&self) -> &str {
        &self.run.name
    }

    /// The type that the controller manages.
    #[must_use]
    pub fn managed(&self) -> &pb::Type {
        &self.run.managed
    }

    /// What the run's watches have seen so far. A write shows here when its event arrives, not before.
    #[must_use]
    pub fn cache(&self) -> &Arc<Cache> {
        &self.run.cache
    }

    /// Waits until the run is ending. From then on what still works has until the drain deadline, then it is dropped.
    pub async fn cancelled(&self) {
        self.run.ending.fired().await;
    }

    /// Whether the run is ending.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.run.ending.has_fired()
    }

    /// Says that this reconcile wrote a resource, status included: its id, and the version as stored. To be said before the
    /// reconcile returns, or else a controller that wakes itself for ever is not found.
    pub fn wrote(&self, id: &pb::Id, version: &str) {
        self.run.writes.wrote(id, version, self.chain);
    }

    /// Says that this reconcile deleted a resource: its id, uid included. As [`Context::wrote`].
    pub fn deleted(&self, id: &pb::Id) {
        self.run.writes.deleted(id, self.chain);
    }
}
