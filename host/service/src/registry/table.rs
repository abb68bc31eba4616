//! The table itself, and the rules by which a plugin gets into it.

use std::{cmp::Ordering, num::NonZeroU32, sync::Arc};

use mortise_plugin_host::{Hooks, Permissions, Plugin};
use mortise_resource::{Error, Scope, manifest::PrinterColumn, pb, types::Gvk};
use prost_reflect::DescriptorPool;

use super::{
    builtin::{self, RESERVED_GROUPS},
    missing_plugin::MissingPlugin,
    schema::Schema,
};

/// The error of adding a plugin to the table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct RegistryError {
    /// The rule that is broken.
    pub rule: Rule,
    what: String,
}

/// The rules by which a plugin gets into the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The host's own descriptors are whole.
    Host,
    /// No two plugins have one name.
    Name,
    /// Some groups belong to the host.
    Group,
    /// No two plugins provide one type.
    Taken,
    /// Versions of a kind have one scope.
    Scope,
}

impl RegistryError {
    pub(crate) fn new(rule: Rule, what: String) -> Self {
        Self { rule, what }
    }
}

/// The provider of a type.
#[derive(Debug, Clone)]
pub enum Owner {
    /// The host.
    Host,
    /// A plugin, whose hooks are called.
    Plugin(Arc<Plugin>),
    /// A missing plugin: stored resources can be read and deleted, not written.
    Missing(Arc<MissingPlugin>),
}

/// One registered type.
#[derive(Debug, Clone)]
pub struct ResourceType {
    /// Name of the type.
    pub gvk: Gvk,
    /// Scope of the type.
    pub scope: Scope,
    /// Schema of the data.
    pub schema: Schema,
    /// Version of the meaning of stored data; upgrades bring older data to it.
    pub schema_version: NonZeroU32,
    /// The hooks that are called; none for types without a loaded plugin.
    pub hooks: Hooks,
    /// The permissions that are asked for where there is no authorize hook.
    pub permissions: Permissions,
    /// Columns for tables.
    pub columns: Vec<PrinterColumn>,
    /// Other names for command lines.
    pub short_names: Vec<String>,
    /// The provider of the type.
    pub owner: Owner,
}

/// Every registered type, at one moment.
#[derive(Debug, Clone)]
pub struct Registry {
    /// Sorted by name, for binary search.
    pub(crate) types: Vec<Arc<ResourceType>>,
    pub(crate) plugins: Vec<Arc<Plugin>>,
    pub(crate) missing_plugins: Vec<Arc<MissingPlugin>>,
    host: DescriptorPool,
}

impl Registry {
    /// Makes the table of the built-in types alone.
    ///
    /// # Errors
    /// None in a build that passes its tests: the descriptors are compiled in.
    pub fn builtin() -> Result<Self, RegistryError> {
        let host = builtin::pool()?;
        let mut types: Vec<_> = builtin::types(&host)?.into_iter().map(Arc::new).collect();
        types.sort_by(|a, b| a.gvk.cmp(&b.gvk));
        Ok(Self { types, plugins: Vec::new(), missing_plugins: Vec::new(), host })
    }

    /// Makes a table of this one and a plugin's types.
    ///
    /// # Errors
    /// The plugin's name or one of its types is taken, a type is in a group of the host, or two versions of a kind, which
    /// share their resources, differ in scope.
    pub fn with(&self, plugin: &Arc<Plugin>) -> Result<Self, RegistryError> {
        if let Some(other) = self.plugins.iter().find(|p| p.name() == plugin.name()) {
            return Err(RegistryError::new(
                Rule::Name,
                format!(
                    "a plugin named {:?} is loaded already (version {}); remove one of the two",
                    other.name(),
                    other.version()
                ),
            ));
        }
        let mut next = self.clone();
        for decl in &plugin.manifest().types {
            if RESERVED_GROUPS.contains(&decl.gvk.group.as_str()) {
                let what = format!("type {}: group {:?} belongs to the host; choose another", decl.gvk, decl.gvk.group);
                return Err(RegistryError::new(Rule::Group, what));
            }
            let is_kind = |t: &&Arc<ResourceType>| {
                t.gvk.group == decl.gvk.group && t.gvk.kind.eq_ignore_ascii_case(&decl.gvk.kind)
            };
            for known in next.types.iter().filter(is_kind) {
                if known.gvk.kind != decl.gvk.kind {
                    let what = format!(
                        "type {}: there is {}, and paths of HTTP, which are in lower case, do not tell the two apart; \
                         rename the type",
                        decl.gvk, known.gvk
                    );
                    return Err(RegistryError::new(Rule::Taken, what));
                }
                let owner = match &known.owner {
                    Owner::Host => "the host",
                    Owner::Plugin(owner) => owner.name(),
                    Owner::Missing(owner) => &owner.name,
                };
                if owner != plugin.name() {
                    let what = format!(
                        "type {}: plugin {owner:?} provides {} already; remove one of the two, or rename the type",
                        decl.gvk, known.gvk
                    );
                    return Err(RegistryError::new(Rule::Taken, what));
                }
                if known.scope != decl.scope {
                    let what = format!(
                        "type {}: {} has another scope, and versions of a kind share their resources; give both one \
                         scope",
                        decl.gvk, known.gvk
                    );
                    return Err(RegistryError::new(Rule::Scope, what));
                }
            }
            next.insert(ResourceType::of(decl, Owner::Plugin(plugin.clone())));
        }
        next.plugins.push(plugin.clone());
        Ok(next)
    }

    pub(crate) fn insert(&mut self, added: ResourceType) {
        let at = self.types.partition_point(|t| t.gvk < added.gvk);
        self.types.insert(at, Arc::new(added));
    }

    /// The type of that name, if it is registered.
    #[must_use]
    pub fn get(&self, t: &pb::Type) -> Option<&Arc<ResourceType>> {
        let found = self.types.binary_search_by(|known| compare(&known.gvk, t)).ok()?;
        self.types.get(found)
    }

    /// The type of that name.
    ///
    /// # Errors
    /// `InvalidArgument` when it is not registered.
    pub fn resolve(&self, t: &pb::Type) -> Result<&Arc<ResourceType>, Error> {
        self.get(t)
            .ok_or_else(|| Error::invalid(format!("resource type {} not registered", mortise_resource::types::gvk(t))))
    }

    /// Every type, sorted by name.
    #[must_use]
    pub fn types(&self) -> &[Arc<ResourceType>] {
        &self.types
    }

    /// The loaded plugin of that name.
    #[must_use]
    pub fn plugin(&self, name: &str) -> Option<&Arc<Plugin>> {
        self.plugins.iter().find(|p| p.name() == name)
    }

    /// Every loaded plugin, in the order in which they were added.
    #[must_use]
    pub fn plugins(&self) -> &[Arc<Plugin>] {
        &self.plugins
    }

    /// Every pool of descriptors: the host's, then each loaded plugin's, then those of missing plugins.
    pub fn pools(&self) -> impl Iterator<Item = &DescriptorPool> {
        let loaded = self.plugins.iter().map(|p| &p.manifest().pool);
        std::iter::once(&self.host).chain(loaded).chain(self.missing_plugins.iter().map(|a| &a.manifest.pool))
    }
}

fn compare(known: &Gvk, wanted: &pb::Type) -> Ordering {
    known
        .group
        .as_str()
        .cmp(&wanted.group)
        .then_with(|| known.group_version.as_str().cmp(&wanted.group_version))
        .then_with(|| known.kind.as_str().cmp(&wanted.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mortise_resource::types;

    #[test]
    fn builtin_types_are_found_exactly() {
        let registry = Registry::builtin().unwrap();
        for gvk in [types::tombstone(), types::partition(), types::namespace()] {
            assert_eq!(registry.get(&gvk.to_pb()).unwrap().gvk, gvk);
        }
        let mut other = types::tombstone().to_pb();
        other.kind = "tombstone".into();
        let error = registry.resolve(&other).unwrap_err();
        assert_eq!(error.message, "resource type internal.v1.tombstone not registered");
        assert!(registry.get(&pb::Type::default()).is_none());
    }
}
