//! The checks of changes from a peer: replicated types, changes that no honest peer sends, and reasons against storing
//! a resource here.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc};

use mortise_resource::{Error, data::HeldBackReason, goten::SyncingMeta, pb, types};
use mortise_store::StoreError;

use super::replicas::Replicas;
use crate::{
    core::ids::tenancy_of,
    registry::{Owner, Registry, ResourceType, builtin::RESERVED_GROUPS},
    rules::{
        admit,
        region::{self, Placement},
        region_policy,
    },
};

/// Types by group and kind, with their versions.
type Versions = BTreeMap<(String, String), Vec<Arc<ResourceType>>>;

impl Replicas {
    /// Returns the types whose resources may be replicated: all versions of each kind, oldest first.
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

/// A change that no honest peer sends.
#[derive(Debug, thiserror::Error)]
pub(super) enum RefusedChange {
    #[error(transparent)]
    BadId(#[from] Error),
    #[error("a resource of {sent} arrived among those of {followed}")]
    OtherType { sent: String, followed: String },
    #[error("{0} is a type of the host; each server has its own resources of it")]
    HostType(String),
}

/// The reason against storing a resource here.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub(crate) struct Deferral {
    pub(super) reason: HeldBackReason,
    pub(super) detail: String,
}

/// The reason why a replica cannot be stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplicaError {
    #[error(transparent)]
    Deferred(#[from] Deferral),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Deferral {
    pub(super) fn new(reason: HeldBackReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// Returns the complete id of a change. Requires the followed type: no other type was requested from the peer.
///
/// # Errors
/// The fault of the id.
pub(super) fn followed_id(registry: &Registry, followed_type: &pb::Type, id: &pb::Id) -> Result<pb::Id, RefusedChange> {
    let mut id = id.clone();
    types::check_id("id", &mut id).and_then(|()| types::check_reference("id", &id))?;
    let pb::Type { group, kind, .. } = id.r#type.clone().unwrap_or_default();
    if group != followed_type.group || kind != followed_type.kind {
        let followed = format!("{}/{}", followed_type.group, followed_type.kind);
        return Err(RefusedChange::OtherType { sent: format!("{group}/{kind}"), followed });
    }
    let namespace = types::namespace();
    if RESERVED_GROUPS.contains(&group.as_str()) && (group != namespace.group || kind != namespace.kind) {
        return Err(RefusedChange::HostType(format!("{group}/{kind}")));
    }
    if let Some(scope) = registry.scope_of(&group, &kind) {
        scope.check("resource", &format!("{group}/{kind}"), tenancy_of(&id))?;
    }
    Ok(id)
}

/// Checks a resource that a peer sent as its own against this region's policy. `known` is the region that the resource
/// belongs to as far as known here; it counts where neither a field nor a policy names one.
pub(super) fn check_policy(
    kind: &ResourceType,
    incoming: &pb::Resource,
    placement: Placement<'_>,
    known: &str,
    (peer, here): (&str, &str),
) -> Result<(), Deferral> {
    let policy = placement.policy;
    let deferred = |detail: String| Err(Deferral::new(HeldBackReason::Policy, detail));
    let Some(SyncingMeta { owning_region: owner, regions, .. }) = region::computed(kind, incoming, placement, known)
    else {
        return deferred("its partition has no policy here; apply the same policy here and there".into());
    };
    if owner != peer {
        return deferred(format!(
            "this region knows it as a resource of region {owner:?}; apply the same policy here and there"
        ));
    }
    if policy.is_some_and(|policy| !policy.enabled_regions.contains(&owner)) {
        return deferred(format!("the policy of its partition does not enable region {owner:?} here"));
    }
    if !may_be_in(&regions, here) {
        return deferred(format!("the policy of its partition allows no replica in region {here:?} here"));
    }
    Ok(())
}

/// Whether regions, as `meta.syncing` has them, include one.
#[must_use]
pub fn may_be_in(regions: &[String], region: &str) -> bool {
    regions.iter().any(|enabled| enabled == region || enabled == region_policy::ALL_REGIONS)
}

/// Returns the type of a resource with a checked id, if the resource can be stored here.
///
/// # Errors
/// The reason against it.
pub(crate) fn check<'a>(
    registry: &'a Registry,
    id: &pb::Id,
    incoming: &pb::Resource,
) -> Result<&'a ResourceType, Deferral> {
    let invalid = |error: Error| Deferral::new(HeldBackReason::Invalid, error.message);
    if id.uid.is_empty() || incoming.generation.is_empty() || incoming.version.is_empty() {
        return Err(Deferral::new(HeldBackReason::Invalid, "it has no uid, generation or version"));
    }
    let kind = registry.resolve(&id.r#type.clone().unwrap_or_default()).map_err(invalid)?;
    kind.scope.check("resource", &kind.gvk.to_string(), tenancy_of(id)).map_err(invalid)?;
    let version = NonZeroU32::new(incoming.schema_version).unwrap_or(NonZeroU32::MIN);
    if version > kind.schema_version {
        let what =
            format!("schema version {version}, but the type has {} here; update its plugin", kind.schema_version);
        return Err(Deferral::new(HeldBackReason::Schema, what));
    }
    match &incoming.data {
        // Older data is upgraded when it is read.
        Some(data) if version == kind.schema_version => {
            admit::check_data(kind, data).map_err(invalid)?;
        }
        _ => {}
    }
    Ok(kind)
}

/// Returns a uid as a number; a uid that is not a ULID has its hash.
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
