//! The room of regions: replicas of what other regions own.

use std::sync::Arc;

use super::restarts::ReplicationRestarts;
use crate::core::Core;

/// Replicas of what other regions own. Cheap to clone.
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
