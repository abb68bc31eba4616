//! The state of replication.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::{RwLock, RwLockReadGuard, watch};

use super::replicated_type::ReplicatedType;
use crate::core::Core;

/// Replicas of resources that other regions own. Cheap to clone.
#[derive(Clone)]
pub struct Regions {
    pub(super) core: Core,
    /// Types whose replication has begun anew.
    pub(super) restarts: Arc<ReplicationRestarts>,
}

impl Regions {
    pub(crate) fn new(core: Core) -> Self {
        Self { core, restarts: Arc::default() }
    }
}

/// How often each type's copies began anew since the start, and the lock between that and what applies copies.
#[derive(Default)]
pub(super) struct ReplicationRestarts {
    pub(super) lock: RwLock<()>,
    pub(super) numbers: watch::Sender<BTreeMap<ReplicatedType, u64>>,
}

impl ReplicationRestarts {
    /// Nothing begins anew while this is held.
    pub(crate) async fn read(&self) -> RwLockReadGuard<'_, ()> {
        self.lock.read().await
    }

    pub(crate) fn number(&self, key: &ReplicatedType) -> u64 {
        self.numbers.borrow().get(key).copied().unwrap_or_default()
    }
}
