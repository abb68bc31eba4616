//! The check of an entry of `meta.owner_references` that a write adds: an entry that can never hold is refused at its
//! field, and so is one that names an owner for the second time. An owner that does not exist yet is fine, and so is,
//! with a warning, a type that is not registered yet.
//!
//! Entries that are stored already are not checked again.

use mortise_resource::{
    Diagnostic, Error, FieldPath, PathStep, Severity, goten::OwnerReference, name, pb, types, types::Gvk,
};
use mortise_store::{Consistency, StoreError};

use super::records::{owner_of, owner_place, target_key};
use crate::{
    call::store_fault::store_fault,
    core::{Core, ids::tenancy_of},
    registry::{Registry, ResourceType},
    rules::{TenancyUnits, UnitError},
};

/// Parts of an owner's name: partition, namespace, name.
const MAX_NAME_PARTS: usize = 3;

/// The group, version and kind that the `kind` of an entry names.
struct NamedType<'e> {
    group: &'e str,
    /// Empty if `kind` has none.
    version: &'e str,
    kind: &'e str,
}

impl<'e> NamedType<'e> {
    /// Reads `group/Kind` or `group.version.Kind`; `None` for any other text.
    fn read(text: &'e str) -> Option<Self> {
        if let Some((group, kind)) = text.split_once('/') {
            let is_whole = !group.is_empty() && !kind.is_empty() && !kind.contains('/');
            return is_whole.then_some(Self { group, version: "", kind });
        }
        let mut parts = text.split('.');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(group), Some(version), Some(kind), None) if ![group, version, kind].contains(&"") => {
                Some(Self { group, version, kind })
            }
            _ => None,
        }
    }

    fn is_registered(&self, registry: &Registry, version: &str) -> bool {
        registry.get(&Gvk::new(self.group, version, self.kind).to_pb()).is_some()
    }
}

/// Returns the entries of a resource that the stored one does not have, with their indices.
fn added<'r>(
    resource: &'r pb::Resource,
    stored: Option<&'r pb::Resource>,
) -> impl Iterator<Item = (usize, &'r OwnerReference)> {
    let known = stored.and_then(|stored| stored.meta.as_deref()).map(|meta| meta.owner_references.as_slice());
    let known = known.unwrap_or_default();
    let all = resource.meta.iter().flat_map(|meta| &meta.owner_references).enumerate();
    all.filter(move |(_, entry)| !known.contains(entry))
}

/// Checks the entries that a write adds.
///
/// # Errors
/// `InvalidArgument`, with the field: the entry can never hold, or names the owner of another one. Faults of the store.
pub(super) async fn check(
    core: &Core,
    registry: &Registry,
    kind: &ResourceType,
    resource: &pb::Resource,
    stored: Option<&pb::Resource>,
) -> Result<(), Error> {
    let holder = resource.id.as_ref().map(tenancy_of).cloned().unwrap_or_default();
    for (index, entry) in added(resource, stored) {
        let checked = check_one(registry, kind, &holder, entry);
        checked.map_err(|(field, fault)| refused(index, field, fault))?;
        check_repetition(registry, &holder, resource, index, entry)?;
        if let Some(here) = core.region()
            && !entry.region.is_empty()
            && entry.region != here
            && !is_known_region(core, &holder, &entry.region).await?
        {
            let fault = format!(
                "the server does not know region {:?}; use {here:?}, a peer, or a region of the partition's policy",
                entry.region
            );
            return Err(refused(index, "region", fault));
        }
    }
    Ok(())
}

/// Returns warnings of entries that a write adds and that cannot hold as long as their type is not registered.
pub(crate) fn warnings(registry: &Registry, resource: &pb::Resource, stored: Option<&pb::Resource>) -> Vec<Diagnostic> {
    added(resource, stored)
        .filter(|(_, entry)| {
            NamedType::read(&entry.kind).is_some_and(|named| registry.scope_of(named.group, named.kind).is_none())
        })
        .map(|(index, entry)| Diagnostic {
            severity: Severity::Warning.into(),
            path: path(index, "kind").to_string(),
            summary: format!(
                "type {:?} is not registered; the entry is dropped unless the owner exists within service.owner_grace_ms",
                entry.kind
            ),
            detail: String::new(),
        })
        .collect()
}

fn check_one(
    registry: &Registry,
    kind: &ResourceType,
    holder: &pb::Tenancy,
    entry: &OwnerReference,
) -> Result<(), (&'static str, String)> {
    let named = NamedType::read(&entry.kind).ok_or_else(|| {
        let fault = format!("{:?} names no type; write group/Kind, such as demo/Artist, or demo.v2.Artist", entry.kind);
        ("kind", fault)
    })?;
    let parts = entry.name.split('/').count();
    if parts > MAX_NAME_PARTS {
        let fault =
            format!("has {parts} parts, {:?}; write name, namespace/name or partition/namespace/name", entry.name);
        return Err(("name", fault));
    }
    if let Some(fault) = entry.name.split('/').find_map(name::fault) {
        return Err(("name", fault));
    }
    let scope = registry.scope_of(named.group, named.kind);
    if scope.is_some() {
        for (field, version) in [("kind", named.version), ("version", &*entry.version)] {
            if !version.is_empty() && !named.is_registered(registry, version) {
                return Err((field, format!("{}/{} has no version {version:?}", named.group, named.kind)));
            }
        }
    }
    let (given, last) = owner_place(&entry.name);
    let owner = target_key(registry, (named.group, named.kind), given, last, holder);
    let owner = owner.map_err(|fault| ("name", fault.to_string()))?;
    // Of a type that is not registered, only the given units are known.
    let units = match scope {
        Some(_) => (owner.partition.as_str(), owner.namespace.as_str()),
        None => given,
    };
    if !kind.owners_anywhere && !is_same_or_above(units, holder) {
        let fault = format!("{owner} is neither in the namespace of the resource nor above it; name an owner there");
        return Err(("name", fault));
    }
    Ok(())
}

/// Refuses an added entry if another one names the same owner, in any spelling: both would share one record.
fn check_repetition(
    registry: &Registry,
    holder: &pb::Tenancy,
    resource: &pb::Resource,
    index: usize,
    entry: &OwnerReference,
) -> Result<(), Error> {
    let all = resource.meta.iter().flat_map(|meta| &meta.owner_references).enumerate();
    let owner = owner_of(registry, entry, holder);
    let mut others = all.filter(|(other, _)| *other != index);
    let Some((other, _)) = others.find(|(_, other)| owner_of(registry, other, holder) == owner) else { return Ok(()) };
    let fault = format!("names {owner}, as owner_references[{}] does; name each owner once", index.min(other));
    Err(refused(index.max(other), "name", fault))
}

/// Whether units are those of the holder, or above them: an empty unit is above each.
fn is_same_or_above((partition, namespace): (&str, &str), holder: &pb::Tenancy) -> bool {
    let fits = |unit: &str, own: &str| unit.is_empty() || unit == own;
    fits(partition, &holder.partition) && fits(namespace, &holder.namespace)
}

/// Whether a region is enabled in the partition, or is one that replicas are pulled from.
async fn is_known_region(core: &Core, holder: &pb::Tenancy, region: &str) -> Result<bool, Error> {
    let failed = |e: StoreError| store_fault("failed to look for a region", &e);
    let units = match TenancyUnits::find(core, holder).await {
        Ok(units) => units,
        Err(UnitError::Store(e)) => return Err(failed(e)),
        Err(_) => TenancyUnits::default(),
    };
    if units.policy.is_some_and(|policy| policy.enabled_regions.iter().any(|enabled| enabled == region)) {
        return Ok(true);
    }
    let peer = pb::Id {
        name: region.to_owned(),
        r#type: Some(types::region_peer().to_pb()),
        tenancy: Some(pb::Tenancy::default()),
        ..pb::Id::default()
    };
    match core.backend.read_encoded(Consistency::Eventual, &peer).await {
        Ok(_) => Ok(true),
        Err(StoreError::NotFound) => Ok(false),
        Err(e) => Err(failed(e)),
    }
}

fn path(index: usize, field: &str) -> FieldPath {
    FieldPath::field("meta")
        .with(PathStep::Field("owner_references".into()))
        .with(PathStep::index(index))
        .with(PathStep::Field(field.into()))
}

fn refused(index: usize, field: &str, fault: String) -> Error {
    let path = path(index, field);
    Error::invalid(format!("resource.{path} {fault}")).with_violation(path, fault)
}
