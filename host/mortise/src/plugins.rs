//! Loads plugins at start: the bundled ones that are switched on, then every `*.wasm` of the folder, in order of name.
//!
//! A plugin that cannot be loaded is said so, with what to do, and left out: its fault must not keep the types of others
//! from being served.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use mortise_plugin_host::{LoadError, Plugin, Sandbox};
use mortise_registry::Registry;

use crate::{bundled, run::RunError};

/// The registry of everything that could be loaded.
pub(crate) async fn load(
    sandbox: &Sandbox,
    bundled: &[String],
    dir: &Path,
    dir_given: bool,
) -> Result<Registry, RunError> {
    let mut registry = Registry::builtin()?;
    for name in bundled {
        let (name, bytes) = bundled::find(name).ok_or_else(|| RunError::UnknownBundled {
            name: name.clone(),
            known: bundled::ALL.map(|(name, _)| name).join(", "),
        })?;
        let begun = Instant::now();
        add(sandbox, &mut registry, Plugin::load(sandbox, name, bytes).await, &format!("bundled {name}"), begun);
    }
    for path in files(dir, dir_given)? {
        let begun = Instant::now();
        add(sandbox, &mut registry, Plugin::load_file(sandbox, &path).await, &path.display().to_string(), begun);
    }
    Ok(registry)
}

fn add(
    sandbox: &Sandbox,
    registry: &mut Registry,
    loaded: Result<Arc<Plugin>, LoadError>,
    source: &str,
    begun: Instant,
) {
    let plugin = match loaded {
        Ok(plugin) => plugin,
        Err(e) => {
            sandbox.count_refused(source);
            return tracing::error!("plugin {source} is not loaded: {e}");
        }
    };
    match registry.with(&plugin) {
        Err(e) => {
            sandbox.count_refused(plugin.name());
            tracing::error!("plugin {source} is not loaded: {e}");
        }
        Ok(next) => {
            *registry = next;
            plugin.now_serves(false);
            tracing::info!(
                plugin = plugin.name(),
                version = plugin.version(),
                types = plugin.manifest().types.len(),
                took_ms = begun.elapsed().as_millis() as u64,
                "loaded plugin from {source}"
            );
        }
    }
}

/// The components of a folder. The default folder need not exist.
fn files(dir: &Path, dir_given: bool) -> Result<Vec<PathBuf>, RunError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !dir_given => return Ok(Vec::new()),
        Err(source) => return Err(RunError::PluginDir { path: dir.to_owned(), source }),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|source| RunError::PluginDir { path: dir.to_owned(), source })?.path();
        if path.extension().is_some_and(|ext| ext == "wasm") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
