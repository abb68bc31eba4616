//! The types that the host itself provides: tombstones, tenancy, plugins, tokens and policies.

use std::num::NonZeroU32;

use mortise_plugin_host::{Hooks, Permissions, QueryDecl, ReferenceDecls, RegionDecl};
use mortise_resource::{DESCRIPTORS, Scope, types};
use prost_reflect::DescriptorPool;

use super::{
    error::RegistryError,
    resource_type::{Owner, ResourceType},
    schema::Schema,
};

/// Groups that belong to the host: no plugin may declare a type in one.
pub const RESERVED_GROUPS: [&str; 3] = ["internal", types::HOST_GROUP, types::TENANCY_GROUP];

/// The messages of the host: the resource API and the built-in types.
///
/// # Errors
/// None in a build that passes its tests: the descriptors are compiled in.
pub fn pool() -> Result<DescriptorPool, RegistryError> {
    DescriptorPool::decode(DESCRIPTORS).map_err(RegistryError::Descriptors)
}

/// The built-in types.
pub(crate) fn types(pool: &DescriptorPool) -> Result<Vec<ResourceType>, RegistryError> {
    [
        (types::plugin(), Scope::Cluster, "mortise.v1.Plugin"),
        (types::value(), Scope::Cluster, "mortise.v1.Value"),
        (types::private_bytes(), Scope::Cluster, "mortise.v1.PrivateBytes"),
        (types::ownership_check(), Scope::Cluster, "mortise.v1.OwnershipCheck"),
        (types::region_progress(), Scope::Cluster, "mortise.v1.RegionProgress"),
        (types::region_peer(), Scope::Cluster, "mortise.v1.RegionPeer"),
        (types::token(), Scope::Cluster, "mortise.v1.Token"),
        (types::policy(), Scope::Cluster, "mortise.v1.Policy"),
        (types::tombstone(), Scope::Undefined, "hashicorp.consul.resource.Tombstone"),
        (types::partition(), Scope::Cluster, "hashicorp.consul.tenancy.v2beta1.Partition"),
        (types::namespace(), Scope::Partition, "hashicorp.consul.tenancy.v2beta1.Namespace"),
    ]
    .into_iter()
    .map(|(gvk, scope, message)| {
        let message = pool.get_message_by_name(message).ok_or(RegistryError::MessageMissing(message))?;
        Ok(ResourceType {
            gvk,
            scope,
            schema: Schema::new(message, Vec::new(), Vec::new()),
            schema_version: NonZeroU32::MIN,
            hooks: Hooks::default(),
            permissions: Permissions::default(),
            columns: Vec::new(),
            short_names: Vec::new(),
            moved_from: Vec::new(),
            query: QueryDecl::default(),
            references: ReferenceDecls::default(),
            regions: RegionDecl::default(),
            owners_anywhere: false,
            owner: Owner::Host,
        })
    })
    .collect()
}
