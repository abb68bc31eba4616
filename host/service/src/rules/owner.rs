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

/// Whether an owner that was given with its uid exists. A child of one that does not goes with its own creation: the
/// reaper deletes it after its second pass, in which an owner that has come meanwhile counts.
///
/// # Errors
/// `InvalidArgument`, on a server with a region: the owner may be of another region, and only that one knows. Faults of
/// the store.
pub(crate) async fn is_owner_there(core: &Core, owner: &pb::Id) -> Result<bool, Error> {
    match core.backend.read_encoded(Consistency::Consistent, owner).await {
        Ok(_) | Err(StoreError::GroupVersionMismatch { .. }) => Ok(true),
        Err(StoreError::NotFound) if core.region().is_none() => Ok(false),
        Err(StoreError::NotFound) => Err(Error::invalid(format!(
            "resource.owner with the uid {:?} is not here; leave out the uid, or wait for the replica from its region",
            owner.uid
        ))),
        Err(error) => Err(store_fault("failed to resolve owner", &error)),
    }
}
