//! The table itself, and the rules for adding a plugin.

use std::{cmp::Ordering, sync::Arc};

use mortise_plugin_host::{Manifest, Plugin, TypeDecl};
use mortise_resource::{
    Error, Scope, pb,
    types::{self, Gvk},
};
use prost_reflect::DescriptorPool;

use super::{
    builtin::{self, RESERVED_GROUPS},
    error::RegistryError,
    missing_plugin::{MissingPlugin, MissingReason},
    resource_type::{Owner, ResourceType},
};

/// All registered types at one moment.
#[derive(Debug, Clone)]
pub struct Registry {
    /// Sorted by name, for binary search.
    types: Vec<Arc<ResourceType>>,
    plugins: Vec<Arc<Plugin>>,
    missing_plugins: Vec<Arc<MissingPlugin>>,
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
    /// The plugin's name or one of its types is taken, a type is in a group of the host, or two versions of a kind,
    /// which share their resources, differ in scope.
    pub fn with(&self, plugin: &Arc<Plugin>) -> Result<Self, RegistryError> {
        if let Some(other) = self.plugins.iter().find(|p| p.name() == plugin.name()) {
            let (name, version) = (other.name().to_owned(), other.version().to_string());
            return Err(RegistryError::NameTaken { name, version });
        }
        let mut next = self.clone();
        for decl in &plugin.manifest().types {
            if RESERVED_GROUPS.contains(&decl.gvk.group.as_str()) {
                return Err(RegistryError::ReservedGroup(decl.gvk.clone()));
            }
            let is_kind = |t: &&Arc<ResourceType>| {
                t.gvk.group == decl.gvk.group && t.gvk.kind.eq_ignore_ascii_case(&decl.gvk.kind)
            };
            for other in next.types.iter().filter(is_kind) {
                let (declared, known) = (Box::new(decl.gvk.clone()), Box::new(other.gvk.clone()));
                if known.kind != declared.kind {
                    return Err(RegistryError::CaseClash { declared, known });
                }
                let provider = other.owner.plugin_name().unwrap_or("the host");
                if provider != plugin.name() {
                    let provider = provider.to_owned();
                    return Err(RegistryError::TypeTaken { declared, known, provider });
                }
                if other.scope != decl.scope {
                    return Err(RegistryError::ScopesDiffer { declared, known });
                }
            }
            next.insert(ResourceType::declared(decl, Owner::Plugin(plugin.clone())));
        }
        next.plugins.push(plugin.clone());
        Ok(next)
    }

    /// Returns this table with another type of the host.
    #[cfg(test)]
    pub(crate) fn with_type(&self, added: ResourceType) -> Self {
        let mut next = self.clone();
        next.insert(added);
        next
    }

    fn insert(&mut self, added: ResourceType) {
        let index = self.types.partition_point(|t| t.gvk < added.gvk);
        self.types.insert(index, Arc::new(added));
    }

    /// Returns the type of that name, if it is registered.
    #[must_use]
    pub fn get(&self, t: &pb::Type) -> Option<&Arc<ResourceType>> {
        let found = self.types.binary_search_by(|known| compare(&known.gvk, t)).ok()?;
        self.types.get(found)
    }

    /// Returns the type of that name.
    ///
    /// # Errors
    /// `InvalidArgument` when it is not registered.
    pub fn resolve(&self, t: &pb::Type) -> Result<&Arc<ResourceType>, Error> {
        self.get(t).ok_or_else(|| Error::invalid(format!("resource type {} not registered", types::gvk(t))))
    }

    /// Returns the type of that name.
    ///
    /// # Errors
    /// `InvalidArgument` when it is not registered.
    pub fn resolve_type(&self, gvk: &Gvk) -> Result<&Arc<ResourceType>, Error> {
        let found = self.types.binary_search_by(|known| known.gvk.cmp(gvk)).ok();
        let found = found.and_then(|found| self.types.get(found));
        found.ok_or_else(|| Error::invalid(format!("resource type {gvk} not registered")))
    }

    /// Returns the scope of a kind, the same in all of its versions.
    #[must_use]
    pub fn scope_of(&self, group: &str, kind: &str) -> Option<Scope> {
        self.types
            .iter()
            .find(|registered| registered.gvk.group == group && registered.gvk.kind == kind)
            .map(|registered| registered.scope)
    }

    /// Returns the types whose resources may refer to a kind.
    pub fn referring_to(&self, group: &str, kind: &str) -> impl Iterator<Item = &Arc<ResourceType>> {
        let refers = move |target: &Gvk| target.group == group && target.kind == kind;
        self.types.iter().filter(move |registered| registered.references.targets().any(refers))
    }

    /// Whether a field of some type may refer to a kind.
    #[must_use]
    pub fn is_referenced(&self, group: &str, kind: &str) -> bool {
        self.referring_to(group, kind).next().is_some()
    }

    /// Returns every type, sorted by name.
    #[must_use]
    pub fn types(&self) -> &[Arc<ResourceType>] {
        &self.types
    }

    /// Returns the loaded plugin of that name.
    #[must_use]
    pub fn plugin(&self, name: &str) -> Option<&Arc<Plugin>> {
        self.plugins.iter().find(|p| p.name() == name)
    }

    /// Returns every loaded plugin, in the order of their addition.
    #[must_use]
    pub fn plugins(&self) -> &[Arc<Plugin>] {
        &self.plugins
    }

    /// Returns every pool of descriptors: the host's, then each loaded plugin's, then those of missing plugins.
    pub fn pools(&self) -> impl Iterator<Item = &DescriptorPool> {
        let loaded = self.plugins.iter().map(|p| &p.manifest().pool);
        std::iter::once(&self.host).chain(loaded).chain(self.missing_plugins.iter().map(|a| &a.manifest.pool))
    }

    /// Returns the missing plugins with known types.
    #[must_use]
    pub fn missing_plugins(&self) -> &[Arc<MissingPlugin>] {
        &self.missing_plugins
    }

    /// Returns this table without a plugin, loaded or missing, and without its types.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut next = self.clone();
        next.plugins.retain(|p| p.name() != name);
        next.missing_plugins.retain(|a| a.name != name);
        next.types.retain(|t| t.owner.plugin_name() != Some(name));
        next
    }

    /// Returns this table with those types of a missing plugin that pass `keep` and have no other provider. The types
    /// of the plugin itself, if it is loaded in another version, stay.
    #[must_use]
    pub fn with_missing_plugin(
        &self,
        manifest: &Manifest,
        why: MissingReason,
        keep: impl Fn(&TypeDecl) -> bool,
    ) -> Self {
        let mut next = self.clone();
        let missing = Arc::new(MissingPlugin { name: manifest.name.to_string(), manifest: manifest.clone(), why });
        let mut any = false;
        for decl in manifest.types.iter().filter(|decl| keep(decl)) {
            if next.get(&decl.gvk.to_pb()).is_some() {
                continue;
            }
            next.insert(ResourceType::declared(decl, Owner::Missing(missing.clone())));
            any = true;
        }
        if any {
            next.missing_plugins.push(missing);
        }
        next
    }

    /// Returns this table without the given types, as far as their plugin is missing.
    #[must_use]
    pub fn without_missing_types(&self, gone: &[Gvk]) -> Self {
        let mut next = self.clone();
        next.types.retain(|t| !(matches!(t.owner, Owner::Missing(_)) && gone.contains(&t.gvk)));
        let types = &next.types;
        next.missing_plugins
            .retain(|a| types.iter().any(|t| matches!(&t.owner, Owner::Missing(owner) if Arc::ptr_eq(owner, a))));
        next
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
