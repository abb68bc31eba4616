//! The error of a deletion.

use mortise_resource::Error;
use mortise_store::StoreError;

use super::plan::PlanError;
use crate::references::ReferenceError;

/// The reason why a deletion did not take place. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    /// A fault of the store, or a conflict.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A referrer or a protection blocks the deletion, the plan is too large, a referrer cannot be cleared, or the
    /// audit log takes no record.
    #[error(transparent)]
    Refused(Error),
}

impl From<PlanError> for RemovalError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Store(error) => Self::Store(error),
            too_far => Self::Refused(too_far.into()),
        }
    }
}

impl From<ReferenceError> for RemovalError {
    fn from(error: ReferenceError) -> Self {
        match error {
            ReferenceError::Store(error) => Self::Store(error),
            ReferenceError::Records(error) => Self::Refused(error),
        }
    }
}

impl From<mortise_resource::EncodingError> for RemovalError {
    fn from(fault: mortise_resource::EncodingError) -> Self {
        Self::Store(fault.into())
    }
}

impl RemovalError {
    /// Whether another attempt, on the newly stored state, may succeed.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Store(StoreError::CasFailure { .. } | StoreError::WrongUid | StoreError::ReferrersChanged))
    }
}
