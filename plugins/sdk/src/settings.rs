//! Settings of the plugin, from the operator.

/// The plugin's settings, `[plugin.<name>.settings]` in the host's config.toml, as one JSON object; `{}` without any.
/// They stay the same for as long as the plugin is loaded; `describe` gets none.
///
/// The text is not parsed here, since a plugin with three settings does not need a parser for all of JSON: read it with
/// the crate of your choice, such as `serde_json`. [`crate::Plugin::check_settings`] checks it before the plugin
/// serves. In native tests [`crate::testing::with_settings`] sets it.
#[must_use]
pub fn settings() -> String {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::settings();
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::settings()
}
