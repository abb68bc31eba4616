//! Hooks of the host's own types.
//!
//! A partition or namespace has a finalizer of the host, so that Delete marks it: from then on writes into it are
//! refused, and [`crate::tenancy_cleanup`] deletes its resources, and the unit itself when it is empty. No client can
//! remove the finalizer.

use crate::registry::ResourceType;
use mortise_resource::{Error, meta, pb, tenancy, types};

/// The finalizer that keeps a tenancy unit until it is empty.
pub(crate) const FINALIZER: &str = "mortise.io/tenancy";

/// Whether a type is a unit of tenancy.
pub(crate) fn is_tenancy(kind: &ResourceType) -> bool {
    kind.gvk == types::partition() || kind.gvk == types::namespace()
}

pub(crate) fn mutate(kind: &ResourceType, resource: &mut pb::Resource) {
    if is_tenancy(kind) {
        meta::add_finalizer(&mut resource.metadata, FINALIZER);
    }
}

pub(crate) fn validate(kind: &ResourceType, resource: &pb::Resource) -> Result<(), Error> {
    if is_tenancy(kind) && meta::is_marked(&resource.metadata) {
        refuse_default(kind, resource)?;
    }
    Ok(())
}

/// Whether an id names a unit `default`, which exists for as long as the unit around it.
pub(crate) fn is_default(id: &pb::Id) -> bool {
    let ty = id.r#type.as_ref();
    id.name == tenancy::DEFAULT && ty.is_some_and(|ty| types::partition().matches(ty) || types::namespace().matches(ty))
}

/// Refuses the deletion of a unit `default`.
pub(crate) fn refuse_default(kind: &ResourceType, resource: &pb::Resource) -> Result<(), Error> {
    if let Some(id) = resource.id.as_ref().filter(|id| is_default(id)) {
        let name = &id.name;
        let unit = kind.gvk.kind.to_lowercase();
        return Err(Error::invalid(format!("{unit} {name:?} exists always and cannot be deleted")));
    }
    Ok(())
}
