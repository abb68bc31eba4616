//! The owner that a new resource names.

use mortise_resource::{EncodedResource, Error, pb};
use mortise_store::{Consistency, StoreError};

use super::read::{is_readable, may_read_name};
use crate::{
    call::{Caller, store_fault::store_fault},
    core::Core,
    registry::Registry,
};

/// Returns the stored id of an owner that was given without a uid, in exactly the tenancy that the client wrote. For a
/// caller that may not read it, the owner does not exist: whether it does is looked up after the permission by name.
///
/// # Errors
/// `InvalidArgument`: the owner does not exist, or is stored under another GroupVersion. Faults of the store.
pub(crate) async fn resolve_owner(
    core: &Core,
    registry: &Registry,
    caller: &Caller,
    owner: &pb::Id,
) -> Result<pb::Id, Error> {
    let absent = || Error::invalid("resource.owner does not exist");
    if may_read_name(registry, caller, owner).await?.is_none() {
        return Err(absent());
    }
    let (found, mismatch) = match core.backend.read_encoded(Consistency::Consistent, owner).await {
        Ok(found) => (found, None),
        Err(StoreError::NotFound) => return Err(absent()),
        Err(error) => match &error {
            StoreError::GroupVersionMismatch { stored, .. } => {
                (EncodedResource::clone(stored), Some(error.to_string()))
            }
            _ => return Err(store_fault("failed to resolve owner", &error)),
        },
    };
    if !is_readable(registry, caller, &found).await {
        return Err(absent());
    }
    match mismatch {
        None => Ok(found.decode_id()?.unwrap_or_default()),
        Some(mismatch) => Err(Error::invalid(format!("failed to resolve owner: {mismatch}"))),
    }
}
