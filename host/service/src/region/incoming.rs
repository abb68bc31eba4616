//! What a peer sends: which types may be copied, and what keeps a resource from being stored here.

use std::{collections::BTreeMap, num::NonZeroU32, sync::Arc};

use mortise_resource::{data::HeldBackReason, pb, types};

use crate::{
    admit,
    read::tenancy_of,
    registry::{Owner, Registry, ResourceType},
    service::ResourceService,
};

/// Types by group and kind, with their versions.
type Versions = BTreeMap<(String, String), Vec<Arc<ResourceType>>>;

impl ResourceService {
    /// The types whose resources may be copied: of those that share a kind, all versions, oldest first.
    #[must_use]
    pub fn copied_types(&self) -> Versions {
        let mut all = Versions::new();
        for kind in self.types().types() {
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

/// What keeps a resource from being stored here.
pub(super) fn check(registry: &Registry, incoming: &pb::Resource) -> Option<(HeldBackReason, String)> {
    let invalid = |what: String| Some((HeldBackReason::Invalid, what));
    let mut id = incoming.id.clone().unwrap_or_default();
    if let Err(e) = types::check_id("id", &mut id).and_then(|()| types::check_reference("id", &id)) {
        return invalid(e.message);
    }
    if id.uid.is_empty() || incoming.generation.is_empty() || incoming.version.is_empty() {
        return invalid("it has no uid, generation or version".into());
    }
    let kind = match registry.resolve(&id.r#type.clone().unwrap_or_default()) {
        Ok(kind) => kind,
        Err(e) => return invalid(e.message),
    };
    if let Err(e) = kind.scope.check("resource", &kind.gvk.to_string(), tenancy_of(&id)) {
        return invalid(e.message);
    }
    let version = NonZeroU32::new(incoming.schema_version).unwrap_or(NonZeroU32::MIN);
    if version > kind.schema_version {
        let what =
            format!("schema version {version}, and the type has {} here; update its plugin", kind.schema_version);
        return Some((HeldBackReason::Schema, what));
    }
    match &incoming.data {
        // What is older is upgraded when it is read.
        Some(data) if version == kind.schema_version => match admit::check_data(kind, data) {
            Ok(()) => None,
            Err(e) => invalid(e.message),
        },
        _ => None,
    }
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
