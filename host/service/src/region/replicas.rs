//! The state of replication: the restarts of each type, shared by all replicas.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::{RwLock, RwLockReadGuard, watch};

use super::replicated_type::ReplicatedType;
use crate::core::Core;

/// Replicas of resources that other regions own. Cheap to clone.
#[derive(Clone)]
pub struct Replicas {
    pub(super) core: Core,
    /// Restarts of the replication of types.
    pub(super) restarts: Arc<ReplicationRestarts>,
}

impl Replicas {
    pub(crate) fn new(core: Core) -> Self {
        Self { core, restarts: Arc::default() }
    }
}

/// Number of restarts of each type since the start of the server, and the lock between restarts and the application of
/// replicas.
#[derive(Default)]
pub(super) struct ReplicationRestarts {
    pub(super) lock: RwLock<()>,
    pub(super) numbers: watch::Sender<BTreeMap<ReplicatedType, u64>>,
}

impl ReplicationRestarts {
    /// Prevents restarts while the guard is held.
    pub(crate) async fn read(&self) -> RwLockReadGuard<'_, ()> {
        self.lock.read().await
    }

    pub(crate) fn number(&self, key: &ReplicatedType) -> u64 {
        self.numbers.borrow().get(key).copied().unwrap_or_default()
    }
}
