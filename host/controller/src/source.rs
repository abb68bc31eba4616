//! The source of changes: a small part of the storage contract, so that the service can put its own rules (upgrade on
//! read) behind it.

use std::sync::Arc;

use async_trait::async_trait;
use mortise_resource::{EncodedResource, pb};

/// An event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The resource was created or changed, or is part of the snapshot.
    Upsert(Arc<EncodedResource>),
    /// The resource was deleted; this is its last content.
    Delete(Arc<EncodedResource>),
    /// The snapshot is complete.
    EndOfSnapshot,
}

/// The error of a watch that could not be opened or that broke.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SourceError(Box<dyn std::error::Error + Send + Sync>);

impl SourceError {
    /// Wraps the error behind the source, or a sentence.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

/// Opens watches.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Watches every resource of the type's group and kind, in any GroupVersion and tenancy: a snapshot as upserts, the
    /// end marker exactly once, then every change, in order and each once.
    ///
    /// # Errors
    /// An error ends the controller's run, which begins again after a wait; so a controller waits for a type that is
    /// not registered yet.
    async fn watch(&self, resource_type: &pb::Type) -> Result<Box<dyn Watch>, SourceError>;
}

/// An open watch. Dropping it closes it.
#[async_trait]
pub trait Watch: Send {
    /// Waits for the next event. A watch never ends by itself; after an error it is dead. The future is polled to its
    /// end, or dropped together with the watch, so it need not be cancel-safe.
    ///
    /// # Errors
    /// Any error ends the controller's run.
    async fn next(&mut self) -> Result<Event, SourceError>;
}
