//! Actions: changes of the server that leave no state.

use super::{
    attribute::{Attribute, Content, OPTIONAL, REQUIRED, attribute, text, type_of},
    resource::block,
};
use crate::{
    proto::tfplugin6::{ActionSchema, Schema},
    value::Type,
};

/// An action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Takes a backup of the server.
    Backup,
    /// Changes a plugin.
    Plugin(PluginChange),
}

/// A change of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginChange {
    /// Disables it, over restarts.
    Disable,
    /// Enables it.
    Enable,
    /// Ends the quarantine of its hooks.
    Reset,
    /// Returns to its previous component.
    Rollback,
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 5] = [
        Self::Backup,
        Self::Plugin(PluginChange::Disable),
        Self::Plugin(PluginChange::Enable),
        Self::Plugin(PluginChange::Reset),
        Self::Plugin(PluginChange::Rollback),
    ];

    /// The name without the provider's.
    #[must_use]
    pub fn short_name(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Plugin(PluginChange::Disable) => "plugin_disable",
            Self::Plugin(PluginChange::Enable) => "plugin_enable",
            Self::Plugin(PluginChange::Reset) => "plugin_reset",
            Self::Plugin(PluginChange::Rollback) => "plugin_rollback",
        }
    }

    /// The effect, in words.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Backup => "Writes everything that the server holds into a file, while the server goes on.",
            Self::Plugin(PluginChange::Disable) => {
                "Disables a plugin, over restarts. Resources of its types can be read and deleted, but not written."
            }
            Self::Plugin(PluginChange::Enable) => "Enables a plugin.",
            Self::Plugin(PluginChange::Reset) => "Ends the quarantine of a plugin's hooks.",
            Self::Plugin(PluginChange::Rollback) => {
                "Returns to the previous component of a plugin, until its file changes or is installed again."
            }
        }
    }

    /// The attributes of its configuration.
    pub(crate) fn attributes(self) -> Vec<Attribute> {
        let flag = |name: &str, description: &str| attribute(name, Content::Value(Type::Bool), OPTIONAL, description);
        match self {
            Self::Backup => vec![
                text(
                    "file",
                    REQUIRED,
                    "The absolute path of the file, in the format .tar.gz, on the machine of the provider.",
                ),
                flag("replace", "Whether to replace an existing file."),
                flag("without_config", "Whether to leave out the server's configuration file."),
            ],
            Self::Plugin(_) => vec![text("plugin", REQUIRED, "The name of the plugin.")],
        }
    }

    /// The type of its configuration.
    #[must_use]
    pub fn to_type(self) -> Type {
        type_of(&self.attributes())
    }

    /// The schema in core's form.
    #[must_use]
    pub fn to_proto(self) -> ActionSchema {
        ActionSchema { schema: Some(Schema { version: 0, block: Some(block(&self.attributes(), self.description())) }) }
    }
}
