//! The errors of reading references.

use mortise_resource::{EncodingError, Error};
use mortise_store::StoreError;

/// The reason why the state of an owner reference is unknown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReferenceError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The references of the owner's type cannot be recorded.
    #[error(transparent)]
    Records(Error),
}

/// The fault of a reference in data whose tenancy its target's type cannot have.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetError {
    #[error("refers to a {0} in a tenancy, but that type has none")]
    NoTenancy(String),
    #[error("refers to a {0} in a namespace, but that type is in partitions")]
    NoNamespace(String),
}

impl From<EncodingError> for ReferenceError {
    fn from(fault: EncodingError) -> Self {
        Self::Store(fault.into())
    }
}
