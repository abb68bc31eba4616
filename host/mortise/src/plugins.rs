//! Options of the plugin manager: folders, times, bundled plugins, and settings that can be read again.

use mortise_keys::signature::PublicKey;
use mortise_plugin_host::CodeFolder;
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
    public_keys("plugins.trusted_keys", &config.plugins.trusted_keys).collect()
}

/// Returns the folder of code that other machines compiled, with the keys of its signers, if the settings name one.
pub(crate) fn code_folder(config: &Config) -> Result<Option<CodeFolder>, ConfigError> {
    let dir = &config.plugins.code_dir;
    let keys = code_keys(config).collect::<Result<_, SettingError>>()?;
    Ok((!dir.as_os_str().is_empty()).then(|| CodeFolder { dir: dir.clone(), keys }))
}

/// Reads the keys of signers of compiled code.
pub(crate) fn code_keys(config: &Config) -> impl Iterator<Item = Result<PublicKey, SettingError>> {
    public_keys("plugins.code_keys", &config.plugins.code_keys)
}

/// Reads the keys of a setting.
pub(crate) fn public_keys(
    key: &'static str,
    texts: &[String],
) -> impl Iterator<Item = Result<PublicKey, SettingError>> {
    texts.iter().map(move |text| {
        PublicKey::load(text).map_err(|e| SettingError::PublicKey { key, text: text.clone(), source: Box::new(e) })
    })
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
