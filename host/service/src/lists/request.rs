//! The checks of a request for many resources of a type.

use std::sync::Arc;

use mortise_resource::{Error, pb, tenancy};

use crate::registry::{Registry, ResourceType};

/// Runs the checks that lists, watches and searches share, before those of the scope.
pub(crate) fn check_request(
    registry: &Registry,
    wanted: &pb::Type,
    tenancy: &pb::Tenancy,
    name_prefix: &str,
) -> Result<Arc<ResourceType>, Error> {
    let kind = registry.resolve(wanted)?.clone();
    tenancy::check_query(tenancy)?;
    if name_prefix.to_lowercase() != name_prefix {
        return Err(Error::invalid(format!("name_prefix invalid: must be lowercase alphanumeric, got: {name_prefix}")));
    }
    Ok(kind)
}
