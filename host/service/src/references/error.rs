//! The error of looking up references.

use mortise_resource::{EncodingError, Error};
use mortise_store::StoreError;

/// The reason for which it is not known whether an owner reference holds.
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
