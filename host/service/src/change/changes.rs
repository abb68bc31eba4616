//! The state of changes: plans, moves, imports, and upgrades of stored data.

use mortise_resource::{Error, pb};
use mortise_store::{Consistency, StoreError};

use super::import_result::already_exists;
use crate::{
    call::store_fault::store_fault, core::Core, deletion::Deletions, private_bytes::PrivateBytes,
    references::References,
};

/// State of plans, moves, imports and upgrades. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Changes {
    pub(super) core: Core,
    pub(super) references: References,
    pub(super) deletions: Deletions,
    pub(super) private_bytes: PrivateBytes,
}

impl Changes {
    pub(crate) fn new(references: References, deletions: Deletions, private_bytes: PrivateBytes, core: Core) -> Self {
        Self { core, references, deletions, private_bytes }
    }

    /// Refuses a resource that is already stored.
    pub(super) async fn check_absent(&self, resource: &pb::Resource) -> Result<(), Error> {
        let id = resource.id.clone().unwrap_or_default();
        match self.core.backend.read(Consistency::Consistent, &id).await {
            Err(StoreError::NotFound) => Ok(()),
            Ok(_) | Err(StoreError::GroupVersionMismatch { .. }) => Err(already_exists(&id)),
            Err(e) => Err(store_fault("failed read", &e)),
        }
    }
}
