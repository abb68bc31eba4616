//! The error of reading references.

use mortise_resource::{EncodingError, Error};
use mortise_store::StoreError;

/// The reason why the state of an owner reference is unknown.
pub(crate) enum ReferenceError {
    Store(StoreError),
    /// The references of the owner's type cannot be recorded.
    Records(Error),
}

impl From<StoreError> for ReferenceError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<EncodingError> for ReferenceError {
    fn from(fault: EncodingError) -> Self {
        Self::Store(fault.into())
    }
}
