//! Options of the plugin manager: folders, times, bundled plugins, and settings that can be read again.

use mortise_keys::signature::PublicKey;
use mortise_plugin_manager::{Bundled, ConfigSource, Limits, Options, TrustRules};

use crate::{
    bundled,
    settings::{Config, ConfigError, LiveSettings, SettingError, plugin},
};

/// Builds the options of the manager.
pub(crate) fn options(config: &Config, live: LiveSettings) -> Result<Options, ConfigError> {
    let mut limits = Limits::default();
    config.test_limits.apply_to_manager(&mut limits);
    Ok(Options {
        plugin_dir: config.plugin_dir.clone(),
        component_dir: config.data_dir.join("plugins"),
        bundled: bundled_plugins(&config.plugins.bundled),
        trust: trust(config)?,
        config: source(config, live)?,
        limits,
        shared: None,
    })
}

/// Rules about which components are loaded.
fn trust(config: &Config) -> Result<TrustRules, SettingError> {
    let plugins = &config.plugins;
    Ok(TrustRules {
        keys: trusted_keys(config)?,
        require_signed: plugins.require_signed,
        load_unsigned: plugins.load_unsigned,
        pinned: plugins.pinned.iter().map(|digest| digest.to_ascii_lowercase()).collect(),
    })
}

/// Reads the keys of trusted signers.
pub(crate) fn trusted_keys(config: &Config) -> Result<Vec<PublicKey>, SettingError> {
    let key = |text: &String| {
        PublicKey::load(text)
            .map_err(|source| SettingError::TrustedKey { text: text.clone(), source: Box::new(source) })
    };
    config.plugins.trusted_keys.iter().map(key).collect()
}

fn bundled_plugins(names: &[String]) -> Vec<Bundled> {
    let mut chosen: Vec<Bundled> = Vec::new();
    // An unknown name was rejected with the configuration.
    for found in names.iter().filter_map(|name| bundled::find(name)) {
        if !chosen.contains(&found) {
            chosen.push(found);
        }
    }
    chosen
}

/// Builds the source of plugin settings, which take effect while the server runs.
fn source(config: &Config, live: LiveSettings) -> Result<ConfigSource, SettingError> {
    let (path, settings) = (live.file().map(Into::into), plugin::read(&config.plugin)?);
    Ok(ConfigSource { path, settings, read: Box::new(move || live.apply()) })
}
