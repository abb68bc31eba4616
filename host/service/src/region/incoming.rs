//! The checks of what a peer sends: types that may be copied, changes that no honest peer sends, and reasons against
//! storing a resource here.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc};

use mortise_resource::{
    data::HeldBackReason,
    goten::{MultiRegionPolicy, SyncingMeta},
    pb, types,
};

use super::regions::Regions;
use crate::{
    core::ids::tenancy_of,
    registry::{Owner, Registry, ResourceType, builtin::RESERVED_GROUPS},
    rules::{admit, region, region_policy},
};

/// Types by group and kind, with their versions.
type Versions = BTreeMap<(String, String), Vec<Arc<ResourceType>>>;

impl Regions {
    /// The types whose resources may be copied: of those that share a kind, all versions, oldest first.
    #[must_use]
    pub fn replicated_types(&self) -> Versions {
        let mut all = Versions::new();
        for kind in self.core.types().types() {
            let is_host = matches!(kind.owner, Owner::Host);
            if is_host && kind.gvk != types::namespace() {
                continue;
            }
            all.entry((kind.gvk.group.clone(), kind.gvk.kind.clone())).or_default().push(kind.clone());
        }
        for versions in all.values_mut() {
            versions.sort_by(|a, b| a.gvk.cmp(&b.gvk));
        }
        all
    }
}

/// The id of a change, complete, if it can be that of a resource of the followed type: a peer is not asked for others.
///
/// # Errors
/// What is wrong with it.
pub(super) fn followed_id(registry: &Registry, of: &pb::Type, id: &pb::Id) -> Result<pb::Id, String> {
    let mut id = id.clone();
    types::check_id("id", &mut id).and_then(|()| types::check_reference("id", &id)).map_err(|e| e.message)?;
    let pb::Type { group, kind, .. } = id.r#type.clone().unwrap_or_default();
    if group != of.group || kind != of.kind {
        return Err(format!("a resource of {group}/{kind} came among those of {}/{}", of.group, of.kind));
    }
    let namespace = types::namespace();
    if RESERVED_GROUPS.contains(&group.as_str()) && (group != namespace.group || kind != namespace.kind) {
        return Err(format!("{group}/{kind} is a type of the host, whose resources are each server's own"));
    }
    if let Some(scope) = registry.scope_of(&group, &kind) {
        scope.check("resource", &format!("{group}/{kind}"), tenancy_of(&id)).map_err(|e| e.message)?;
    }
    Ok(id)
}

/// What this region's policy has against a resource that a peer sent as its own. `known` is the region that it is known to
/// belong to, which counts where neither a field nor a policy says so.
pub(super) fn forbidden(
    kind: &ResourceType,
    incoming: &pb::Resource,
    policy: Option<&MultiRegionPolicy>,
    known: &str,
    (peer, here): (&str, &str),
) -> Option<String> {
    let Some(SyncingMeta { owning_region: owner, regions, .. }) = region::computed(kind, incoming, policy, known)
    else {
        return Some("no policy governs it here; give its partition the policy that it has there".into());
    };
    if owner != peer {
        return Some(format!(
            "it belongs to region {owner:?} by what is known here; apply the same policy here and there"
        ));
    }
    if policy.is_some_and(|policy| !policy.enabled_regions.contains(&owner)) {
        return Some(format!("the policy of its partition does not enable region {owner:?} here"));
    }
    if !may_be_in(&regions, here) {
        return Some(format!("the policy of its partition allows no copy in region {here:?} here"));
    }
    None
}

/// Whether regions, as `meta.syncing` has them, include one.
#[must_use]
pub fn may_be_in(regions: &[String], region: &str) -> bool {
    regions.iter().any(|one| one == region || one == region_policy::EVERYWHERE)
}

/// The type of a resource whose id was checked, if it can be stored here.
///
/// # Errors
/// What keeps it from that.
pub(crate) fn check<'a>(
    registry: &'a Registry,
    id: &pb::Id,
    incoming: &pb::Resource,
) -> Result<&'a ResourceType, (HeldBackReason, String)> {
    let invalid = |what: String| (HeldBackReason::Invalid, what);
    if id.uid.is_empty() || incoming.generation.is_empty() || incoming.version.is_empty() {
        return Err(invalid("it has no uid, generation or version".into()));
    }
    let kind = registry.resolve(&id.r#type.clone().unwrap_or_default()).map_err(|e| invalid(e.message))?;
    kind.scope.check("resource", &kind.gvk.to_string(), tenancy_of(id)).map_err(|e| invalid(e.message))?;
    let version = NonZeroU32::new(incoming.schema_version).unwrap_or(NonZeroU32::MIN);
    if version > kind.schema_version {
        let what =
            format!("schema version {version}, and the type has {} here; update its plugin", kind.schema_version);
        return Err((HeldBackReason::Schema, what));
    }
    match &incoming.data {
        // What is older is upgraded when it is read.
        Some(data) if version == kind.schema_version => {
            admit::check_data(kind, data).map_err(|e| invalid(e.message))?;
        }
        _ => {}
    }
    Ok(kind)
}

/// A uid as a number; what is no ULID has its hash.
#[must_use]
pub fn uid_number(uid: &str) -> u128 {
    ulid::Ulid::from_string(uid).map_or_else(
        |_| {
            uid.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
                (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
            })
        },
        |ulid| ulid.0,
    )
}
