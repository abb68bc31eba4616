//! What the manager of plugins is started with: folders, patience, bundled plugins, and settings that can be read
//! again.

use std::{path::PathBuf, time::Duration};

use mortise_plugin_manager::{Bundled, ConfigFault, ConfigSource, Limits, Options};

use crate::{
    bundled,
    settings::{Config, ConfigError, Reload, plugin},
};

/// The options of the manager.
pub(crate) fn options(config: &Config, reload: Reload) -> Result<Options, ConfigError> {
    let ms = Duration::from_millis;
    Ok(Options {
        plugin_dir: config.plugin_dir.clone(),
        component_dir: config.data_dir.join("plugins"),
        bundled: bundled_plugins(&config.plugins.bundled),
        settle: ms(config.plugins.settle_ms),
        unfinished: ms(config.plugins.unfinished_ms),
        rescan: ms(config.plugins.rescan_ms.max(1)),
        drain: ms(config.plugins.drain_ms),
        config: source(config, reload)?,
        limits: Limits::default(),
    })
}

fn bundled_plugins(names: &[String]) -> Vec<Bundled> {
    let mut chosen: Vec<Bundled> = Vec::new();
    // A name that is none was refused with the configuration.
    for found in names.iter().filter_map(|name| bundled::find(name)) {
        if !chosen.contains(&found) {
            chosen.push(found);
        }
    }
    chosen
}

/// Settings of plugins take effect while the server runs; of anything else that changed it is said that it does not.
fn source(config: &Config, reload: Reload) -> Result<ConfigSource, ConfigError> {
    let path: Option<PathBuf> = reload.file().map(Into::into);
    let running = reload.read().map(|config| config.without_settings());
    let read = move || {
        let fault = |e: ConfigError| ConfigFault { plugin: reload.culprit(), what: e.to_string() };
        let next = reload.read().map_err(fault)?;
        let settings = plugin::read(&next.plugin).map_err(|e| fault(e.into()))?;
        if running.as_ref().is_ok_and(|running| *running != next.without_settings()) {
            tracing::warn!(
                "the configuration changed beyond the settings of plugins; the rest takes effect with a restart"
            );
        }
        Ok(settings)
    };
    Ok(ConfigSource { path, settings: plugin::read(&config.plugin)?, read: Box::new(read) })
}
