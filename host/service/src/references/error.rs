//! The error of reading references.

use mortise_resource::{BadEncoding, Error};
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

impl From<BadEncoding> for ReferenceError {
    fn from(fault: BadEncoding) -> Self {
        Self::Store(fault.into())
    }
}
