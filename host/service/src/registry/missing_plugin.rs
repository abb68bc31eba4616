//! Types of missing plugins: those that are removed, disabled, or broken since the last start.
//!
//! Stored resources of such a type can still be read, listed, watched and deleted, with `operator:read` and `operator:write`,
//! since there is no authorize hook. Writes are refused, because there is no validate hook.

use std::{fmt, sync::Arc};

use mortise_plugin_host::{Hooks, Manifest, Plugin, TypeDecl};
use mortise_resource::{Code, Error, types, types::Gvk};

use super::{
    schema::Schema,
    table::{Owner, Registry, ResourceType},
};

/// A plugin that is not loaded and whose types are known.
#[derive(Debug)]
pub struct MissingPlugin {
    /// Name of the plugin.
    pub name: String,
    /// The manifest that it had when it was loaded last.
    pub manifest: Manifest,
    /// The reason for which it is missing.
    pub why: MissingReason,
}

/// The reason for which a plugin, or one of its types, is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingReason {
    /// The plugin's file is gone.
    Removed,
    /// The plugin is disabled.
    Disabled,
    /// No version of the plugin can be loaded.
    Broken,
    /// The plugin is loaded, in a version that no longer provides the type.
    Dropped,
}

impl fmt::Display for MissingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Removed => "is removed; put its file back or install it, or delete what is stored",
            Self::Disabled => "is disabled; enable it",
            Self::Broken => "cannot be loaded; its mortise.v1.Plugin resource says why",
            Self::Dropped => "has dropped the type; load a version that provides it, or delete what is stored",
        })
    }
}

impl Registry {
    /// The missing plugins whose types are known.
    #[must_use]
    pub fn missing_plugins(&self) -> &[Arc<MissingPlugin>] {
        &self.missing_plugins
    }

    /// This table without a plugin, loaded or missing, and without its types.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut next = self.clone();
        next.plugins.retain(|p| p.name() != name);
        next.missing_plugins.retain(|a| a.name != name);
        next.types.retain(|t| t.owner.plugin_name() != Some(name));
        next
    }

    /// This table and those types of a missing plugin for which `keep` holds and which no other plugin provides. The types
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
            next.insert(ResourceType::of(decl, Owner::Missing(missing.clone())));
            any = true;
        }
        if any {
            next.missing_plugins.push(missing);
        }
        next
    }

    /// This table without those of the given types whose plugin is missing.
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

impl Owner {
    /// The loaded plugin; `None` for the host and for a missing plugin.
    #[must_use]
    pub fn plugin(&self) -> Option<&Arc<Plugin>> {
        match self {
            Self::Plugin(plugin) => Some(plugin),
            Self::Host | Self::Missing(_) => None,
        }
    }

    /// Name of the plugin, loaded or missing; `None` for the host.
    #[must_use]
    pub fn plugin_name(&self) -> Option<&str> {
        match self {
            Self::Host => None,
            Self::Plugin(plugin) => Some(plugin.name()),
            Self::Missing(missing) => Some(&missing.name),
        }
    }
}

impl ResourceType {
    pub(crate) fn of(decl: &TypeDecl, owner: Owner) -> Self {
        let hooks = if matches!(owner, Owner::Plugin(_)) { decl.hooks } else { Hooks::default() };
        Self {
            gvk: decl.gvk.clone(),
            scope: decl.scope,
            schema: Schema::new(decl.message.clone(), decl.immutable.clone()),
            schema_version: decl.schema_version,
            hooks,
            // A declared permission needs no hook.
            permissions: decl.permissions.clone(),
            columns: decl.columns.clone(),
            short_names: decl.short_names.clone(),
            owner,
        }
    }

    /// Refuses types whose plugin is missing. Writes that belong to a deletion stay possible, and do not call this.
    ///
    /// # Errors
    /// `FailedPrecondition`.
    pub fn check_plugin_present(&self) -> Result<(), Error> {
        match &self.owner {
            Owner::Missing(missing) => Err(Error::new(
                Code::FailedPrecondition,
                format!(
                    "type {} is not written: plugin {:?}, which provides it, {}",
                    self.gvk, missing.name, missing.why
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Refuses types that only the host writes and deletes: plugins as resources, and the values of their reconcilers.
    ///
    /// # Errors
    /// `PermissionDenied`.
    pub fn check_deletable(&self) -> Result<(), Error> {
        if self.gvk == types::plugin() {
            return Err(Error::denied(format!(
                "{} is kept by the host alone; use mortise.v1.PluginService to install, remove, roll back, disable or \
                 enable a plugin",
                self.gvk
            )));
        }
        if self.gvk == types::value() {
            return Err(Error::denied(format!(
                "{} is kept by the host alone, for the plugin that it belongs to",
                self.gvk
            )));
        }
        Ok(())
    }
}
