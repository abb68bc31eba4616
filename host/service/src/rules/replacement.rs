//! The rules of a write that replaces a stored resource.

use mortise_resource::{Diagnostic, Error, Severity, pb, resource_meta};

use super::{deletion_rules::with_reserved_metadata, hooks::RequestHooks, region, server_meta};
use crate::{core::Core, registry::ResourceType};

/// Whether a resource after its hooks equals the stored one, except for the server's fields.
pub(crate) fn is_unchanged(incoming: &pb::Resource, resource: &pb::Resource, stored: &pb::Resource) -> bool {
    let gvk = |resource: &pb::Resource| resource.id.as_ref().and_then(|id| id.r#type.clone());
    resource.data == stored.data
        && with_reserved_metadata(incoming, stored, &resource.metadata) == stored.metadata
        && resource_meta::is_same_client_part(resource.meta.as_deref(), stored.meta.as_deref())
        && server_meta::is_blocked(resource) == server_meta::is_blocked(stored)
        && resource.owner.as_ref().map(|owner| &owner.name) == stored.owner.as_ref().map(|owner| &owner.name)
        && (incoming.version.is_empty() || incoming.version == stored.version)
        && gvk(resource) == gvk(stored)
}

/// Warns if a client sent the stored data, the result of an earlier `mutate`, and `mutate` still changed it.
pub(crate) fn not_idempotent(
    hooks: &RequestHooks,
    incoming: &pb::Resource,
    mutated: &pb::Resource,
    stored: &pb::Resource,
) -> Option<Diagnostic> {
    let went_through = incoming.data == stored.data && mutated.data != stored.data;
    went_through.then(|| Diagnostic {
        severity: Severity::Warning.into(),
        path: "data".into(),
        summary: format!(
            "plugin {}: mutate changed data that it had left unchanged before; its defaults are new, or it is not \
             idempotent",
            hooks.owner_name()
        ),
        detail: String::new(),
    })
}

/// Completes the owner of a replacement by the uid of the stored one.
///
/// # Errors
/// `InvalidArgument`: the owner is another one.
pub(crate) fn check_owner(resource: &mut pb::Resource, stored: &pb::Resource) -> Result<(), Error> {
    if let (Some(given), Some(known)) = (&mut resource.owner, &stored.owner)
        && given.uid.is_empty()
    {
        given.uid.clone_from(&known.uid);
    }
    if resource.owner == stored.owner { Ok(()) } else { Err(Error::invalid("owner cannot be changed")) }
}

/// Refuses changes of immutable fields; a region field may change where the server has a region.
///
/// # Errors
/// `InvalidArgument` with the first field.
pub(crate) fn check_immutable(
    core: &Core,
    kind: &ResourceType,
    resource: &pb::Resource,
    stored: &pb::Resource,
) -> Result<(), Error> {
    let same_version = stored.id.as_ref().and_then(|id| id.r#type.as_ref()).is_some_and(|t| kind.gvk.matches(t));
    if !same_version {
        return Ok(());
    }
    let [before, after] =
        [stored, resource].map(|r| r.data.as_ref().map(|data| data.value.as_slice()).unwrap_or_default());
    let before = region::with_named_region(core, kind, before, after);
    match kind.schema.changed_immutable(&before, after).first() {
        None => Ok(()),
        Some(path) => Err(Error::invalid(format!("{path} cannot be changed once the resource exists"))),
    }
}
