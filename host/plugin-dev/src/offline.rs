//! The sandbox that serves plugins, without a server around it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use mortise_cli::CliError;
use mortise_plugin_host::{
    Limits, LoadError, Plugin, PluginSettings, Quarantine, ReconcileLimits, Sandbox, SandboxOptions,
};

use crate::{fault, server_settings::ServerSettings};

/// Instances at once: calls come one at a time, and few instances reserve less address space.
const INSTANCES: u32 = 4;

/// Time limit of one request in milliseconds. A server's limit is shorter; but time depends on the machine, and the
/// cost of a hook shows in its fuel, which is the same everywhere.
const DEADLINE_MS: u64 = 10_000;

/// A component's file, read once, and a sandbox for it.
pub(crate) struct Offline {
    pub(crate) sandbox: Sandbox,
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

impl Offline {
    /// Reads a component, and makes a sandbox with the default limits of a server, except for quarantine (each call
    /// counts alone) and time.
    ///
    /// # Errors
    /// A file that cannot be read; a machine without room for a sandbox.
    pub(crate) fn new(path: &Path) -> Result<Self, CliError> {
        Self::with(path, false, None)
    }

    /// Makes the same with the limits of a server's configuration, if there is one. `reuses_all`: it reuses the
    /// instances of every plugin, whether that asks for it or not.
    ///
    /// # Errors
    /// Those of [`Offline::new`].
    pub(crate) fn with(path: &Path, reuses_all: bool, server: Option<&ServerSettings>) -> Result<Self, CliError> {
        let options = SandboxOptions {
            reuses_all,
            controllers: reconcile_limits(server),
            quarantine: Quarantine { faults: 10_000, probation_faults: 10_000, ..Quarantine::default() },
            ..SandboxOptions::default()
        };
        let limits = Limits {
            instances: INSTANCES,
            deadline_ms: DEADLINE_MS,
            describe_deadline_ms: DEADLINE_MS,
            low_priority_ms: 0,
            ..server.map_or_else(Limits::default, |server| server.limits.clone())
        };
        let sandbox = Sandbox::with_options(&limits, options, cache_dir()).map_err(|e| fault::load(path, e))?;
        let bytes = match fs::metadata(path) {
            Ok(found) if found.is_file() => fs::read(path).map_err(fault::file("read", path))?,
            Ok(_) => {
                let next = "give the component, one .wasm file; `mortise plugin build` prints its path";
                return Err(fault::usage(format!("{} is not a file", path.display()), next));
            }
            Err(e) => return Err(fault::file("read", path)(e)),
        };
        Ok(Self { sandbox, path: path.to_owned(), bytes })
    }

    /// Name of the file in errors.
    fn file_name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Returns the plugin's description of itself.
    ///
    /// # Errors
    /// Those of the loader.
    pub(crate) async fn describe(&self) -> Result<mortise_plugin_host::Manifest, LoadError> {
        Plugin::describe(&self.sandbox, &self.file_name(), &self.bytes).await
    }

    /// Loads the plugin, with settings and grants.
    ///
    /// # Errors
    /// Those of the loader.
    pub(crate) async fn load(&self, settings: &PluginSettings) -> Result<Arc<Plugin>, LoadError> {
        Plugin::load(&self.sandbox, &self.file_name(), &self.bytes, settings).await
    }
}

/// Limits of controllers: those of the server, except for time.
fn reconcile_limits(server: Option<&ServerSettings>) -> ReconcileLimits {
    let ReconcileLimits { deadline_ms, host_call_ms, .. } = ReconcileLimits::default();
    let limits = server.map_or_else(ReconcileLimits::default, |server| server.controllers.clone());
    ReconcileLimits { deadline_ms, host_call_ms, ..limits }
}

/// Directory of compiled code: that of `mortise dev`, or else one among temporary files.
fn cache_dir() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|v| Path::new(v).is_absolute()).map(PathBuf::from);
    variable("MORTISE_CACHE_DIR")
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("mortise")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/mortise")))
        .unwrap_or_else(|| std::env::temp_dir().join("mortise-cache"))
}
