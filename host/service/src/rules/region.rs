//! The region of a resource, the regions of its replicas, and the right to change it (docs/regions.md).
//!
//! # Contract
//! A server without a region enforces and computes nothing. A server with a region refuses to create, change or delete
//! resources of other regions; it holds these as replicas only ([`crate::region`]). A resource belongs to the region in
//! its type's region field, else to the region of its owner, else to the default region of its partition's policy. In a
//! partition without a policy it belongs to no region: it stays where it is, and anyone may write it.
//!
//! # Cost
//! One read of the partition `default` for each write into it, where the server has a region; other partitions are read
//! in any case. Partitions without a policy are not decoded. One read more for each owner up to the first with a region
//! of its own, at most [`MAX_OWNERS`], under a policy alone.

use std::borrow::Cow;

use mortise_resource::{
    Code, EncodedResource, Error,
    goten::{Meta, MultiRegionPolicy, SyncingMeta},
    manifest::RegionSyncing,
    pb, types,
};

use mortise_store::StoreError;

use super::{region_policy, shards};
use crate::{
    core::{Core, ids::type_of},
    registry::{Owner, Registry, ResourceType},
};

/// Owners that are asked for the region of a resource, one after another.
const MAX_OWNERS: usize = 16;

/// The sources of a resource's region, apart from its own field.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Placement<'p> {
    /// The policy of its partition.
    pub(crate) policy: Option<&'p MultiRegionPolicy>,
    /// The region of its owner; empty for none.
    pub(crate) inherited: &'p str,
}

/// Returns the region that a resource takes from its owner; empty for none. An owner without a region of its own takes
/// that of the next owner, so the region follows from names and fields alone, and not from the order of writes. If an
/// owner is gone, a stored resource keeps its region, since it goes with the owner.
///
/// # Errors
/// Faults of the store.
pub(crate) async fn inherited(
    core: &Core,
    registry: &Registry,
    kind: &ResourceType,
    resource: &pb::Resource,
    policy: Option<&MultiRegionPolicy>,
) -> Result<String, StoreError> {
    if core.region().is_none() || policy.is_none() || !named(kind, resource).is_empty() {
        return Ok(String::new());
    }
    let partition = |id: &pb::Id| id.tenancy.as_ref().map(|tenancy| tenancy.partition.clone()).unwrap_or_default();
    let place = resource.id.as_ref().map(partition);
    let mut next = resource.owner.clone();
    for _ in 0..MAX_OWNERS {
        let Some(id) = next else { break };
        let Some(owner) = core.stored(&id).await? else { return Ok(owning_region(resource).to_owned()) };
        let owner = owner.decode()?;
        let owner_type = owner.id.as_ref().and_then(|id| registry.resolve(&type_of(id)).ok());
        let known = owner_type.filter(|kind| !matches!(kind.owner, Owner::Missing(_)) && place == Some(partition(&id)));
        let Some(kind) = known else { return Ok(owning_region(&owner).to_owned()) };
        let named = named(kind, &owner);
        if !named.is_empty() {
            return Ok(named);
        }
        next = owner.owner;
    }
    Ok(String::new())
}

/// Returns the region that the type's region field names; empty for none.
pub(crate) fn named(kind: &ResourceType, resource: &pb::Resource) -> String {
    match (kind.regions.field.as_slice(), &resource.data) {
        ([], _) | (_, None) => String::new(),
        (path, Some(data)) => kind.schema.text(&data.value, path),
    }
}

/// Refuses to change or delete a stored resource of another region.
///
/// # Errors
/// `FailedPrecondition`, with the region.
pub(crate) fn check_owner(core: &Core, stored: &pb::Resource) -> Result<(), Error> {
    match (core.region(), owning_region(stored)) {
        (Some(here), owner) if !owner.is_empty() && owner != here => Err(elsewhere(stored, owner, here)),
        _ => Ok(()),
    }
}

/// Sets the computed part of a resource before it is stored in this placement: region and shards. `creates` is true for
/// a new resource.
///
/// # Errors
/// `FailedPrecondition`, with the region: the resource belongs to another one, or to one that is not enabled.
pub(crate) fn set_computed(
    core: &Core,
    kind: &ResourceType,
    resource: &mut pb::Resource,
    placement: Placement<'_>,
    creates: bool,
) -> Result<(), Error> {
    let policy = placement.policy;
    if let Some(here) = core.region() {
        let syncing = syncing(kind, resource, placement, here, creates);
        if let Some(SyncingMeta { owning_region: owner, .. }) = &syncing {
            if creates && policy.is_some_and(|policy| !policy.enabled_regions.contains(owner)) {
                return Err(not_enabled(resource, owner, policy));
            }
            if owner != here && (creates || !gives(kind, resource, policy, here)) {
                return Err(elsewhere(resource, owner, here));
            }
        }
        if syncing.is_some() || resource.meta.is_some() {
            resource.meta.get_or_insert_default().syncing = syncing;
        }
    }
    shards::set(&core.options.placement.rings, resource);
    Ok(())
}

/// Whether the owner's write gives a resource to another region: its region field names one that is enabled and may
/// have a replica, which the new owner needs.
fn gives(kind: &ResourceType, resource: &pb::Resource, policy: Option<&MultiRegionPolicy>, here: &str) -> bool {
    let Some(policy) = policy else { return false };
    let named = named(kind, resource);
    let name = format!("{}/{}", kind.gvk.group, kind.gvk.kind);
    owning_region(resource) == here
        && policy.enabled_regions.contains(&named)
        && region_policy::regions(Some(policy), kind.regions.syncing, &name, here)
            .iter()
            .any(|region| *region == named || region == region_policy::ALL_REGIONS)
}

/// Returns the stored data with the region that a write names: on a server with a region, the region field is not
/// immutable, since the owner may give a resource away.
pub(crate) fn with_named_region<'s>(
    core: &Core,
    kind: &ResourceType,
    stored: &'s [u8],
    written: &[u8],
) -> Cow<'s, [u8]> {
    let field = &kind.regions.field;
    if core.region().is_none() || field.is_empty() {
        return stored.into();
    }
    match kind.schema.text(written, field) {
        named if named.is_empty() => stored.into(),
        named => kind.schema.with_text(stored, field, &named).into(),
    }
}

/// Whether the computed part of a stored resource would differ now.
pub(crate) fn computes_other(
    core: &Core,
    kind: &ResourceType,
    stored: &pb::Resource,
    placement: Placement<'_>,
) -> bool {
    if core.region().is_none() && core.options.placement.rings.is_empty() {
        return false;
    }
    if owning_region(stored) != core.region().unwrap_or_default() && is_replica(stored) {
        return false;
    }
    let mut now = stored.clone();
    // A resource that may not be written here is not refreshed.
    set_computed(core, kind, &mut now, placement, false).is_ok() && now.meta != stored.meta
}

/// Whether a stored resource belongs to another region. Deletions here leave it alone: its own region follows them.
pub(crate) fn is_foreign(core: &Core, stored: &EncodedResource) -> bool {
    let Some(here) = core.region() else { return false };
    let meta = stored.decode_meta().ok().flatten();
    syncing_of(meta.as_ref()).is_some_and(|s| !s.owning_region.is_empty() && s.owning_region != here)
}

/// Returns the region of a resource of this server, and the regions of its replicas; `None` without a policy. `creates`
/// is true for a resource without a region yet.
pub(crate) fn syncing(
    kind: &ResourceType,
    resource: &pb::Resource,
    placement: Placement<'_>,
    here: &str,
    creates: bool,
) -> Option<SyncingMeta> {
    // A type with a missing plugin keeps its value.
    if let Owner::Missing(_) = &kind.owner {
        return syncing_of(resource.meta.as_deref()).cloned();
    }
    let known = Some(owning_region(resource)).filter(|owner| !creates && !owner.is_empty());
    computed(kind, resource, placement, known.unwrap_or(here))
}

/// Returns the region of a resource, and the regions of its replicas, by its field and its placement. If neither names
/// a region, and the type is replicated everywhere, `known` is its region.
pub(crate) fn computed(
    kind: &ResourceType,
    resource: &pb::Resource,
    Placement { policy, inherited }: Placement<'_>,
    known: &str,
) -> Option<SyncingMeta> {
    // Of the host's own types only namespaces have a region.
    if matches!(kind.owner, Owner::Host) && kind.gvk != types::namespace() {
        return None;
    }
    let named = named(kind, resource);
    let owner = match (named.is_empty(), policy, kind.regions.syncing) {
        (_, None, RegionSyncing::Default | RegionSyncing::AlwaysInScope | RegionSyncing::Never) => return None,
        (false, ..) => named,
        (true, Some(_), _) if !inherited.is_empty() => inherited.to_owned(),
        (true, Some(policy), _) => policy.default_control_region.clone(),
        (true, None, RegionSyncing::AlwaysGlobally) => known.to_owned(),
    };
    let name = format!("{}/{}", kind.gvk.group, kind.gvk.kind);
    let regions = region_policy::regions(policy, kind.regions.syncing, &name, &owner);
    Some(SyncingMeta { owning_region: owner, regions, ..SyncingMeta::default() })
}

/// Returns the region of a stored resource; empty for none.
pub(crate) fn owning_region(stored: &pb::Resource) -> &str {
    syncing_of(stored.meta.as_deref()).map(|syncing| syncing.owning_region.as_str()).unwrap_or_default()
}

/// Whether a stored resource is a replica from another region.
pub(crate) fn is_replica(stored: &pb::Resource) -> bool {
    !replica_origin(stored).is_empty()
}

/// Returns the region from which a stored resource was pulled; empty for a resource of this server.
pub(crate) fn replica_origin(stored: &pb::Resource) -> &str {
    syncing_of(stored.meta.as_deref()).map(|syncing| syncing.copied_from.as_str()).unwrap_or_default()
}

pub(crate) fn syncing_of(meta: Option<&Meta>) -> Option<&SyncingMeta> {
    meta.and_then(|meta| meta.syncing.as_ref())
}

fn elsewhere(resource: &pb::Resource, owner: &str, here: &str) -> Error {
    let what = types::describe(&resource.id.clone().unwrap_or_default());
    let text = format!("{what} belongs to region {owner:?}, and this server is of region {here:?}; change it there");
    Error::new(Code::FailedPrecondition, text)
}

fn not_enabled(resource: &pb::Resource, owner: &str, policy: Option<&MultiRegionPolicy>) -> Error {
    let id = resource.id.clone().unwrap_or_default();
    let partition = id.tenancy.as_ref().map(|tenancy| tenancy.partition.as_str()).unwrap_or_default();
    let enabled = policy.map(|policy| policy.enabled_regions.join(", ")).unwrap_or_default();
    let what = types::describe(&id);
    let text = format!("{what}: region {owner:?} is not enabled in partition {partition:?} (enabled: {enabled})");
    Error::new(Code::FailedPrecondition, text)
}
