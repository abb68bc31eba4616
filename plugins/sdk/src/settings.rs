//! What the operator set for the plugin.

/// The plugin's settings, `[plugin.<name>.settings]` in the host's config.toml, as one JSON object; `{}` when there are
/// none. They stay the same for as long as the plugin is loaded; in `describe` there are none.
///
/// The text is as it comes, since a plugin with three settings need not carry a parser for all of JSON: read it with
/// the crate of your choice, such as `serde_json`. Checked before the plugin serves by
/// [`crate::Plugin::check_settings`]. Natively, what [`crate::testing::with_settings`] says.
#[must_use]
pub fn settings() -> String {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::settings();
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::settings()
}
