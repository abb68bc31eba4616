//! A plugin's types: as the registry has them, as its record shows them, as another plugin takes them over.

use mortise_plugin_host::{Manifest, Plugin};
use mortise_resource::{data, types::Gvk};
use mortise_service::registry::{MissingReason, Owner, Registry, ResourceType};

use crate::load::canary::wire_scope;

/// Takes types over that a plugin which was removed has left behind. Answers them as they were, and the table without.
pub(crate) fn take_over_types(registry: &Registry, plugin: &Plugin) -> (Vec<data::PluginType>, Registry) {
    let (mut adopted, mut gone): (Vec<data::PluginType>, Vec<Gvk>) = (Vec::new(), Vec::new());
    for t in registry.types() {
        let Owner::Missing(owner) = &t.owner else { continue };
        let wanted = plugin.manifest().types.iter().any(|d| d.gvk.group == t.gvk.group && d.gvk.kind == t.gvk.kind);
        if wanted && matches!(owner.why, MissingReason::Removed | MissingReason::Dropped) {
            gone.push(t.gvk.clone());
            // Whether an upgrade had come to its end is not known any more.
            adopted.push(shown(t, t.schema_version.get() > 1));
        }
    }
    (adopted, registry.without_missing_types(&gone))
}

/// The manifests under which the table has a plugin's types.
pub(crate) fn manifests_of(registry: &Registry, name: &str) -> Vec<Manifest> {
    let there = registry.plugin(name).map(|plugin| plugin.manifest().clone());
    let absent = registry.missing_plugins().iter().filter(|a| a.name == name).map(|a| a.manifest.clone());
    there.into_iter().chain(absent).collect()
}

/// A plugin's types as its record shows them.
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

/// Whether stored objects compare with both alike.
pub(crate) fn same_comparison(one: &[data::PluginType], other: &[data::PluginType]) -> bool {
    let alike = |(a, b): (&data::PluginType, &data::PluginType)| {
        a.r#type == b.r#type && a.scope == b.scope && a.schema_version == b.schema_version
    };
    one.len() == other.len() && one.iter().zip(other).all(alike)
}
