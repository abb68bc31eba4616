//! Loads plugins at start: the bundled ones that are switched on, then every `*.wasm` of the folder, in order of name.
//!
//! A plugin that cannot be loaded is said so, with what to do, and left out: its fault must not keep the types of others
//! from being served.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use mortise_plugin_host::{LoadError, Plugin, PluginSettings, Sandbox};
use mortise_registry::Registry;

use crate::{bundled, run::RunError};

/// The registry of everything that could be loaded.
pub(crate) async fn load(
    sandbox: &Sandbox,
    bundled: &[String],
    dir: &Path,
    dir_given: bool,
    settings: &PluginSettings,
) -> Result<Registry, RunError> {
    let mut registry = Registry::builtin()?;
    let mut loaded = BTreeSet::new();
    for name in bundled {
        let (name, bytes) = bundled::find(name).ok_or_else(|| RunError::UnknownBundled {
            name: name.clone(),
            known: bundled::ALL.map(|(name, _)| name).join(", "),
        })?;
        let begun = Instant::now();
        loaded.extend(add(
            &mut registry,
            Plugin::load(sandbox, name, bytes, settings).await,
            &format!("bundled {name}"),
            begun,
        ));
    }
    for path in files(dir, dir_given)? {
        let begun = Instant::now();
        loaded.extend(add(
            &mut registry,
            Plugin::load_file(sandbox, &path, settings).await,
            &path.display().to_string(),
            begun,
        ));
    }
    for name in settings.names().filter(|name| !loaded.contains(*name)) {
        tracing::warn!("plugin.{name} is configured, but no plugin of that name is loaded; is the name right?");
    }
    Ok(registry)
}

/// Adds what was loaded; answers its name, or says why it is left out.
fn add(
    registry: &mut Registry,
    loaded: Result<Arc<Plugin>, LoadError>,
    source: &str,
    begun: Instant,
) -> Option<String> {
    let plugin = match loaded {
        Ok(plugin) => plugin,
        Err(e) => {
            tracing::error!("plugin {source} is not loaded: {e}");
            return None;
        }
    };
    match registry.with(&plugin) {
        Err(e) => {
            tracing::error!("plugin {source} is not loaded: {e}");
            None
        }
        Ok(next) => {
            *registry = next;
            tracing::info!(
                plugin = plugin.name(),
                version = plugin.version(),
                types = plugin.manifest().types.len(),
                took_ms = begun.elapsed().as_millis() as u64,
                "loaded plugin from {source}"
            );
            Some(plugin.name().to_owned())
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
