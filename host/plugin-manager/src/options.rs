//! Options of the manager.

use std::{path::PathBuf, time::Duration};

use mortise_plugin_host::PluginSettings;
use mortise_store::StoreError;

use crate::{shared::Shared, trust::TrustRules};

/// A plugin that is compiled into the binary: its name, and its component.
pub type Bundled = (&'static str, &'static [u8]);

/// Sources of plugins, and waiting times. Part of config.toml.
pub struct Options {
    /// The folder. It may appear later.
    pub plugin_dir: PathBuf,
    /// Directory of kept components.
    pub component_dir: PathBuf,
    /// Bundled plugins that are enabled.
    pub bundled: Vec<Bundled>,
    /// Rules for loading components.
    pub trust: TrustRules,
    /// Settings of plugins.
    pub config: ConfigSource,
    /// Bounds with a default.
    pub limits: Limits,
    /// The other servers, if several share a store.
    pub shared: Option<Shared>,
}

/// Bounds of the manager's work.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Time without a change before a file is read. Default 50 ms.
    pub settle: Duration,
    /// Longest wait for the rest of an incomplete file, from its last change on. Default 5 s.
    pub unfinished: Duration,
    /// Interval of scans of the folder, since some file systems report no changes. Default 2 s.
    pub rescan: Duration,
    /// Time for calls in a replaced version before the log names them. Default 30 s.
    pub drain: Duration,
    /// Most components that are compiled, and compared with stored resources, at once. Default 4.
    pub parallel_loads: usize,
    /// Longest time that a backup may hold up transitions. Default 20 s.
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

/// Source of settings.
pub struct ConfigSource {
    /// The configuration's file, if there is one.
    pub path: Option<PathBuf>,
    /// Current settings.
    pub settings: PluginSettings,
    /// Reads the settings again.
    pub read: Box<dyn Fn() -> Result<PluginSettings, ConfigFault> + Send + Sync>,
}

/// A faulty configuration. It has no effect.
#[derive(Debug, Clone)]
pub struct ConfigFault {
    /// The plugin that it concerns, if it concerns one.
    pub plugin: Option<String>,
    /// Fault and place.
    pub what: String,
}

/// Reasons why the manager cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store does not answer.
    #[error("the records of plugins cannot be read: {0}")]
    Store(#[from] StoreError),
    /// This server's own records cannot be read.
    #[error("the plugins' records in {}: {source}; make them readable", path.display())]
    Records {
        /// Their directory.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The folder exists but cannot be read.
    #[error("plugin_dir {}: {source}; make it readable, or choose another", path.display())]
    PluginDir {
        /// The folder.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
}
