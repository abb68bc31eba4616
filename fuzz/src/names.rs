//! Names, and texts that contain names.

use std::sync::OnceLock;

use mortise_resource::{name, pb, tenancy, types::Gvk};
use mortise_service::registry::Registry;

/// Reads names of resources and types, paths and queries of HTTP, authorities of the destination API, names of DNS.
pub fn names(bytes: &[u8]) {
    static REGISTRY: OnceLock<Option<Registry>> = OnceLock::new();
    let text = String::from_utf8_lossy(bytes);
    let _ = name::fault(&text);
    let _ = mortise_plugin_manager::files::folder::resource_name(&text);
    let mut parts = text.split('\n');
    let mut part = || parts.next().unwrap_or_default().to_owned();
    let tenancy = pb::Tenancy { partition: part(), namespace: part() };
    let _ = tenancy == pb::Tenancy { partition: tenancy::WILDCARD.into(), ..pb::Tenancy::default() };
    let kind = pb::Type { group: part(), group_version: part(), kind: part() };
    let _ = Gvk::from(&kind).to_string();
    if let Some(registry) = REGISTRY.get_or_init(|| Registry::builtin().ok()) {
        let _ = registry.resolve(&kind);
        mortise_api::fuzzing::paths(registry, &text);
    }
    mortise_api::fuzzing::authorities(&text);
}
