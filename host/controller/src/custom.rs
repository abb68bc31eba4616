//! Events that are no resources: from the network, from a clock, from another part of the process.
//!
//! They lead to requests through a mapper and do not touch the cache. Each has a key; events with one key that wait are
//! one, the newest. A source whose stream ends is done: that is no fault, and the controller goes on without it until its
//! next run.

use std::{any::Any, fmt, sync::Arc};

use async_trait::async_trait;
use futures::stream::BoxStream;
use mortise_resource::pb;

use crate::{cache::Cache, request::ReconcileError};

/// An event from elsewhere.
#[derive(Clone)]
pub struct CustomEvent {
    /// Events with the same key are about the same thing. No zero bytes.
    pub key: String,
    /// Whatever the mapper needs.
    pub payload: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for CustomEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomEvent({:?})", self.key)
    }
}

/// A source of events and their mapper.
#[async_trait]
pub trait CustomSource: Send + Sync + 'static {
    /// For messages and metrics.
    fn name(&self) -> &str;

    /// Opens the stream; once in each run, when everything is primed. It is read no further while
    /// 65,536 keys wait for the mapper.
    fn open(&self) -> BoxStream<'static, CustomEvent>;

    /// Which resources of the managed type to reconcile.
    ///
    /// # Errors
    /// As [`crate::Map::map`].
    async fn map(&self, cache: &Cache, event: &CustomEvent) -> Result<Vec<pb::Id>, ReconcileError>;
}

/// Keys of one source that may wait for its mapper.
pub(crate) const BOUND: usize = 65_536;
