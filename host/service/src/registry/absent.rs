//! Types of plugins that are not there: removed, disabled, or broken since the last start.
//!
//! What is stored of such a type stays readable, listable, watchable and deletable, with `operator:read` and
//! `operator:write`, since nobody is left to ask. Writes are refused, because nobody is left to validate them.

use std::{fmt, sync::Arc};

use mortise_plugin_host::{Hooks, Manifest, Plugin, TypeDecl};
use mortise_resource::{Code, Error, types, types::Gvk};

use super::{
    schema::Schema,
    table::{Owner, Registry, ResourceType},
};

/// A plugin that is not there, of which the types are known.
#[derive(Debug)]
pub struct Absent {
    /// Its name.
    pub name: String,
    /// What it said about itself when it was there last.
    pub manifest: Manifest,
    /// Why it is not there.
    pub why: Why,
}

/// Why a plugin is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Its file is gone.
    Removed,
    /// It is disabled.
    Disabled,
    /// Nothing of it can be loaded.
    Broken,
    /// It is there, in a version that does not provide the type any more.
    Dropped,
}

impl fmt::Display for Why {
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
    /// The plugins that are not there and of which types are known.
    #[must_use]
    pub fn absent(&self) -> &[Arc<Absent>] {
        &self.absent
    }

    /// This table without a plugin, there or not, and its types.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut next = self.clone();
        next.plugins.retain(|p| p.name() != name);
        next.absent.retain(|a| a.name != name);
        next.types.retain(|t| t.owner.plugin_name() != Some(name));
        next
    }

    /// This table and those types of a plugin that is not there for which `keep` holds and which nobody else provides.
    /// The plugin's own types, if it is there in another version, stay.
    #[must_use]
    pub fn with_absent(&self, manifest: &Manifest, why: Why, keep: impl Fn(&TypeDecl) -> bool) -> Self {
        let mut next = self.clone();
        let absent = Arc::new(Absent { name: manifest.name.to_string(), manifest: manifest.clone(), why });
        let mut any = false;
        for decl in manifest.types.iter().filter(|decl| keep(decl)) {
            if next.get(&decl.gvk.to_pb()).is_some() {
                continue;
            }
            next.insert(ResourceType::of(decl, Owner::Absent(absent.clone())));
            any = true;
        }
        if any {
            next.absent.push(absent);
        }
        next
    }

    /// This table without the types that are named and whose plugin is not there.
    #[must_use]
    pub fn without_absent_types(&self, gone: &[Gvk]) -> Self {
        let mut next = self.clone();
        next.types.retain(|t| !(matches!(t.owner, Owner::Absent(_)) && gone.contains(&t.gvk)));
        let types = &next.types;
        next.absent.retain(|a| types.iter().any(|t| matches!(&t.owner, Owner::Absent(owner) if Arc::ptr_eq(owner, a))));
        next
    }
}

impl Owner {
    /// The plugin that is there; none for the host and for one that is gone.
    #[must_use]
    pub fn plugin(&self) -> Option<&Arc<Plugin>> {
        match self {
            Self::Plugin(plugin) => Some(plugin),
            Self::Host | Self::Absent(_) => None,
        }
    }

    /// The plugin, there or not; none for the host.
    #[must_use]
    pub fn plugin_name(&self) -> Option<&str> {
        match self {
            Self::Host => None,
            Self::Plugin(plugin) => Some(plugin.name()),
            Self::Absent(absent) => Some(&absent.name),
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
            // What is declared needs nobody to be there.
            permissions: decl.permissions.clone(),
            columns: decl.columns.clone(),
            short_names: decl.short_names.clone(),
            owner,
        }
    }

    /// Refuses types whose plugin is not there. Writes that belong to a deletion stay possible, and do not ask.
    ///
    /// # Errors
    /// `FailedPrecondition`.
    pub fn check_present(&self) -> Result<(), Error> {
        match &self.owner {
            Owner::Absent(absent) => Err(Error::new(
                Code::FailedPrecondition,
                format!(
                    "type {} is not written: plugin {:?}, which provides it, {}",
                    self.gvk, absent.name, absent.why
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Refuses what only the host writes and deletes: plugins as resources, and what their reconcilers remember.
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
