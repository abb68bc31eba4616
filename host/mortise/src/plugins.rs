//! What the manager of plugins is started with: folders, patience, bundled plugins, and settings that can be read
//! again.

use std::{path::PathBuf, time::Duration};

use mortise_plugin_manager::{Bundled, ConfigFault, ConfigSource, Limits, Options, TrustRules};
use mortise_signature::PublicKey;

use crate::{
    bundled,
    settings::{Config, ConfigError, Reload, SettingError, plugin},
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
        trust: trust(config)?,
        config: source(config, reload)?,
        limits: Limits::default(),
    })
}

/// Which components are loaded.
fn trust(config: &Config) -> Result<TrustRules, SettingError> {
    let plugins = &config.plugins;
    let key =
        |text: &String| PublicKey::load(text).map_err(|source| SettingError::TrustedKey { text: text.clone(), source });
    Ok(TrustRules {
        keys: plugins.trusted_keys.iter().map(key).collect::<Result<_, _>>()?,
        require_signed: plugins.require_signed,
        trust_folder: plugins.trust_folder,
        pinned: plugins.pinned.iter().map(|digest| digest.to_ascii_lowercase()).collect(),
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
