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
    /// Time that a changed file must stay the same before it is read: a file that is being written is not. Default 50 ms.
    pub settle: Duration,
    /// Time from the last change of a file that is not whole until that is an error. Default 5 s.
    pub unfinished: Duration,
    /// Time between two looks at the folder: some file systems report no changes. Default 2 s.
    pub rescan: Duration,
    /// Time that calls in a replaced version may take before the log says so. Default 30 s.
    pub drain: Duration,
    /// How many components are compiled, and compared with what is stored, at once.
    pub parallel_loads: usize,
    /// How long a backup may hold up transitions.
    pub pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            settle: Duration::from_millis(50),
            unfinished: Duration::from_secs(5),
            rescan: Duration::from_secs(2),
            drain: Duration::from_secs(30),
            parallel_loads: 4,
            pause: Duration::from_secs(20),
        }
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
