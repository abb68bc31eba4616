//! The id in a request for one resource.

use std::sync::Arc;

use mortise_resource::{Error, pb, types};

use super::caller::Caller;
use crate::{
    core::ids::type_of,
    registry::{Registry, ResourceType},
};

/// Checks an id, and completes it by the caller's tenancy. Returns it with its type.
///
/// # Errors
/// `InvalidArgument`: the id is missing, or the id, its type or its scope is wrong.
pub(crate) fn complete(
    registry: &Registry,
    caller: &Caller,
    id: Option<pb::Id>,
) -> Result<(pb::Id, Arc<ResourceType>), Error> {
    let mut id = id.ok_or_else(|| Error::invalid("id is required"))?;
    types::check_id("id", &mut id)?;
    let kind = registry.resolve(&type_of(&id))?.clone();
    let tenancy = id.tenancy.get_or_insert_default();
    kind.scope.check("resource", &kind.gvk.to_string(), tenancy)?;
    caller.fill(kind.scope, tenancy);
    Ok((id, kind))
}
