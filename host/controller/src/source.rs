//! Where controllers learn of resources: a small part of the storage contract, so that the service can put its own rules
//! (upgrade on read) behind it.

use std::sync::Arc;

use async_trait::async_trait;
use mortise_resource::pb;

/// A change as a watch delivers it.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Created or changed, or part of the snapshot.
    Upsert(Arc<pb::Resource>),
    /// Deleted; the whole last content.
    Delete(Arc<pb::Resource>),
    /// The snapshot is complete.
    EndOfSnapshot,
}

/// Why a watch could not be opened, or is dead.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl SourceError {
    /// From the error of whatever is behind the source, or from a sentence.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

/// Opens watches.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Watches every resource of the type's group and kind, whatever its GroupVersion and its tenancy: a snapshot as
    /// upserts, the end marker exactly once, then every change, in order and each once.
    ///
    /// # Errors
    /// Ends the controller's run, which is tried again after a while; so a type that is not registered yet is a
    /// reason to wait and not to crash.
    async fn watch(&self, of: &pb::Type) -> Result<Box<dyn Watch>, SourceError>;
}

/// An open watch. Dropping it closes it.
#[async_trait]
pub trait Watch: Send {
    /// The next event. Never ends by itself; after an error the watch is dead. The future is polled to its end or dropped
    /// together with the watch, so it need not be cancel-safe.
    ///
    /// # Errors
    /// Any error ends the controller's run.
    async fn next(&mut self) -> Result<Event, SourceError>;
}
