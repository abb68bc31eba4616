//! What the manager is started with.

use std::{path::PathBuf, time::Duration};

use mortise_plugin_host::PluginSettings;
use mortise_store::StoreError;

use crate::trust::TrustRules;

/// A plugin that is compiled into the binary: its name, and its component.
pub type Bundled = (&'static str, &'static [u8]);

/// Where plugins come from, and how patiently they are looked after. Part of config.toml.
pub struct Options {
    /// The folder. It may appear later.
    pub plugin_dir: PathBuf,
    /// Where components are kept.
    pub component_dir: PathBuf,
    /// Bundled plugins that are switched on.
    pub bundled: Vec<Bundled>,
    /// How long a file must stay as it is before it is read.
    pub settle: Duration,
    /// How long a file that is not whole is waited for, from its last change on.
    pub unfinished: Duration,
    /// How often the folder is looked at without having been told to.
    pub rescan: Duration,
    /// How long calls in a replaced version are waited for.
    pub drain: Duration,
    /// Which components are loaded.
    pub trust: TrustRules,
    /// Settings of plugins.
    pub config: ConfigSource,
    /// What has a default.
    pub limits: Limits,
}

/// Bounds of the manager's work.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How many components are compiled, and compared with what is stored, at once.
    pub parallel_loads: usize,
    /// How long a backup may hold up transitions.
    pub pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { parallel_loads: 4, pause: Duration::from_secs(20) }
    }
}

/// Where settings come from.
pub struct ConfigSource {
    /// The configuration's file, if there is one.
    pub path: Option<PathBuf>,
    /// As they are now.
    pub settings: PluginSettings,
    /// Reads them anew.
    pub read: Box<dyn Fn() -> Result<PluginSettings, ConfigFault> + Send + Sync>,
}

/// A configuration that cannot be used. Nothing changes because of it.
#[derive(Debug, Clone)]
pub struct ConfigFault {
    /// The plugin that it concerns, if it concerns one.
    pub plugin: Option<String>,
    /// What is wrong, and where.
    pub what: String,
}

/// Why there is no manager.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store does not answer.
    #[error("reading what is known of plugins: {0}")]
    Store(#[from] StoreError),
    /// The folder is there and cannot be read.
    #[error("plugin_dir {}: {source}; make it readable, or choose another", path.display())]
    PluginDir {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
