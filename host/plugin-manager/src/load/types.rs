//! A plugin's types: in the registry, in its record, and when another plugin takes them over.

use mortise_plugin_host::{Manifest, Plugin};
use mortise_resource::{data, types::Gvk};
use mortise_service::registry::{MissingReason, Owner, Registry, ResourceType};

use crate::load::canary::wire_scope;

/// Takes over types that a removed plugin has left behind. Returns their former state, and the table without them.
pub(crate) fn take_over_types(registry: &Registry, plugin: &Plugin) -> (Vec<data::PluginType>, Registry) {
    let (mut adopted, mut gone): (Vec<data::PluginType>, Vec<Gvk>) = (Vec::new(), Vec::new());
    for t in registry.types() {
        let Owner::Missing(owner) = &t.owner else { continue };
        let wanted = plugin.manifest().types.iter().any(|d| d.gvk.group == t.gvk.group && d.gvk.kind == t.gvk.kind);
        if wanted && matches!(owner.why, MissingReason::Removed | MissingReason::Dropped) {
            gone.push(t.gvk.clone());
            // It is no longer known whether an upgrade was complete.
            adopted.push(shown(t, t.schema_version.get() > 1));
        }
    }
    (adopted, registry.without_missing_types(&gone))
}

/// The manifests of a plugin's types in the table.
pub(crate) fn manifests_of(registry: &Registry, name: &str) -> Vec<Manifest> {
    let there = registry.plugin(name).map(|plugin| plugin.manifest().clone());
    let absent = registry.missing_plugins().iter().filter(|a| a.name == name).map(|a| a.manifest.clone());
    there.into_iter().chain(absent).collect()
}

/// A plugin's types in the form of its record.
pub(crate) fn types_of(registry: &Registry, name: &str) -> Vec<data::PluginType> {
    let own = registry.types().iter().filter(|t| t.owner.plugin_name() == Some(name));
    own.map(|t| shown(t, false)).collect()
}

fn shown(t: &ResourceType, upgrading: bool) -> data::PluginType {
    data::PluginType {
        r#type: Some(t.gvk.to_pb()),
        scope: wire_scope(t.scope).into(),
        schema_version: t.schema_version.get(),
        message: t.schema.message().full_name().to_owned(),
        upgrading,
    }
}

/// Whether a comparison of stored objects gives the same result for both.
pub(crate) fn same_comparison(left: &[data::PluginType], other: &[data::PluginType]) -> bool {
    let alike = |(a, b): (&data::PluginType, &data::PluginType)| {
        a.r#type == b.r#type && a.scope == b.scope && a.schema_version == b.schema_version
    };
    left.len() == other.len() && left.iter().zip(other).all(alike)
}
