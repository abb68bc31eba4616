//! A server's configuration, as far as it concerns one component: `--config FILE`.
//!
//! # Contract
//! Settings, limits and grants of types are those that the server would use. Commands that call the plugin leave the
//! outside out: directories, secrets and hosts of the server are not touched.

use std::path::{Path, PathBuf};

use clap::Args;
use mortise_cli::CliError;
use mortise_plugin_host::{Grants, Limits, PluginSettings, ReconcileLimits};

/// Limits of a server, and the settings and grants of its plugins.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Limits of hooks.
    pub limits: Limits,
    /// Limits of controllers.
    pub controllers: ReconcileLimits,
    /// Settings and grants, by plugin.
    pub plugins: PluginSettings,
}

/// Reads a server's configuration file, as the server does.
///
/// # Errors
/// The file cannot be read, or has a wrong setting.
pub type ReadServerSettings = fn(&Path) -> Result<ServerSettings, CliError>;

/// Option for the configuration of a server.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServerConfig {
    /// A server's configuration: its limits, and the settings and grants of [plugin.NAME]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ServerConfig {
    /// Reads the configuration, if one is given.
    ///
    /// # Errors
    /// Those of [`ReadServerSettings`].
    pub(crate) fn read(&self, read: ReadServerSettings) -> Result<Option<ServerSettings>, CliError> {
        self.config.as_deref().map(read).transpose()
    }
}

impl ServerSettings {
    /// Settings and grants of one plugin, without the outside.
    pub(crate) fn inside(&self, plugin: &str) -> PluginSettings {
        let mut inside = self.plugins.clone();
        inside.grant(plugin, grants_inside(self.plugins.grants_of(plugin)));
        inside
    }
}

/// Grants without directories, secrets and hosts.
pub(crate) fn grants_inside(grants: &Grants) -> Grants {
    let Grants { read, write, instances, limits, .. } = grants.clone();
    Grants { read, write, instances, limits, ..Grants::default() }
}
