//! A registered type, and its provider.

use std::{num::NonZeroU32, sync::Arc};

use mortise_plugin_host::{Hooks, Permissions, Plugin, QueryDecl, ReferenceDecls, RegionDecl, TypeDecl};
use mortise_resource::{
    Code, Error, Scope,
    manifest::PrinterColumn,
    types::{self, Gvk},
};

use prost_reflect::MessageDescriptor;

use super::{missing_plugin::MissingPlugin, schema::Schema};

/// The provider of a type.
#[derive(Debug, Clone)]
pub enum Owner {
    /// The host.
    Host,
    /// A loaded plugin.
    Plugin(Arc<Plugin>),
    /// A missing plugin: stored resources can be read and deleted, not written.
    Missing(Arc<MissingPlugin>),
}

/// A registered type.
#[derive(Debug, Clone)]
pub struct ResourceType {
    /// Name of the type.
    pub gvk: Gvk,
    /// Scope of the type.
    pub scope: Scope,
    /// Schema of the data.
    pub schema: Schema,
    /// Version of the meaning of stored data; older data is upgraded to it.
    pub schema_version: NonZeroU32,
    /// Hooks of the type; none without a loaded plugin.
    pub hooks: Hooks,
    /// Permissions required without an authorize hook.
    pub permissions: Permissions,
    /// Columns for tables.
    pub columns: Vec<PrinterColumn>,
    /// Other names for command lines.
    pub short_names: Vec<String>,
    /// Types whose resources can be moved to this one.
    pub moved_from: Vec<Gvk>,
    /// Declared views and indexed fields.
    pub query: QueryDecl,
    /// Fields of its data that refer to other resources.
    pub references: ReferenceDecls,
    /// Declared region of its resources.
    pub regions: RegionDecl,
    /// Whether owners of owner references may be in other namespaces and partitions.
    pub owners_anywhere: bool,
    /// The provider of the type.
    pub owner: Owner,
}

impl Owner {
    /// Returns the loaded plugin; `None` for the host and for a missing plugin.
    #[must_use]
    pub fn plugin(&self) -> Option<&Arc<Plugin>> {
        match self {
            Self::Plugin(plugin) => Some(plugin),
            Self::Host | Self::Missing(_) => None,
        }
    }

    /// Returns the name of the plugin, loaded or missing; `None` for the host.
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
    pub(super) fn declared(decl: &TypeDecl, owner: Owner) -> Self {
        let hooks = if matches!(owner, Owner::Plugin(_)) { decl.hooks } else { Hooks::default() };
        Self {
            gvk: decl.gvk.clone(),
            scope: decl.scope,
            schema: Schema::new(decl.message.clone(), decl.immutable.clone(), decl.query.spec.clone()),
            schema_version: decl.schema_version,
            hooks,
            // A declared permission replaces the hook.
            permissions: decl.permissions.clone(),
            columns: decl.columns.clone(),
            short_names: decl.short_names.clone(),
            moved_from: decl.moved_from.clone(),
            query: decl.query.clone(),
            references: decl.references.clone(),
            regions: decl.regions.clone(),
            owners_anywhere: decl.owners_anywhere,
            owner,
        }
    }

    /// Whether stored data has the same meaning in another registration of the type, with this message and version.
    pub(crate) fn reads_as(&self, message: &MessageDescriptor, schema_version: NonZeroU32) -> bool {
        self.schema_version == schema_version
            && (self.schema.message() == message
                || self.schema.message().parent_file().file_descriptor_proto()
                    == message.parent_file().file_descriptor_proto())
    }

    /// Refuses types with a missing plugin. Writes that belong to a deletion stay possible, and do not call this.
    ///
    /// # Errors
    /// `FailedPrecondition`.
    pub fn check_plugin_present(&self) -> Result<(), Error> {
        match &self.owner {
            Owner::Missing(missing) => Err(Error::new(
                Code::FailedPrecondition,
                format!(
                    "type {} is read-only: plugin {:?}, which provides it, {}",
                    self.gvk, missing.name, missing.why
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Refuses types that only the host writes and deletes: plugins as resources, and the stored state of plugins and
    /// of replication.
    ///
    /// # Errors
    /// `PermissionDenied`.
    pub fn check_deletable(&self) -> Result<(), Error> {
        // Types outside the host's group pass at once.
        if self.gvk.group != types::HOST_GROUP {
            return Ok(());
        }
        if self.gvk == types::plugin() {
            return Err(Error::denied(format!(
                "{} is kept by the host alone; use mortise.v1.PluginService to install, remove, roll back, disable or \
                 enable a plugin",
                self.gvk
            )));
        }
        if self.gvk == types::ownership_check() {
            return Err(Error::denied(format!("{} is kept by the host alone, for its garbage collector", self.gvk)));
        }
        if self.gvk == types::region_progress() || self.gvk == types::region_peer() {
            return Err(Error::denied(format!(
                "{} is kept by the host alone, for the replicas of other regions; `mortise regions` shows them",
                self.gvk
            )));
        }
        if self.gvk == types::value() || self.gvk == types::private_bytes() {
            return Err(Error::denied(format!(
                "{} is kept by the host alone, for the plugin that it belongs to",
                self.gvk
            )));
        }
        Ok(())
    }
}
