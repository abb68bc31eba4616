//! Settings of the plugin, from the operator: as text, or as a struct of serde.

#[cfg(any(feature = "serde", all(test, not(target_arch = "wasm32"))))]
mod node;
#[cfg(any(feature = "serde", all(test, not(target_arch = "wasm32"))))]
mod typed;

#[cfg(any(feature = "serde", all(test, not(target_arch = "wasm32"))))]
pub(crate) use typed::check;
#[cfg(any(feature = "serde", all(test, not(target_arch = "wasm32"))))]
pub use typed::{Settings, SettingsError, settings_as};

/// The plugin's settings, `[plugin.<name>.settings]` in the host's config.toml, as one JSON object; `{}` without any.
/// They stay the same for as long as the plugin is loaded; `describe` gets none.
///
/// The text is not parsed here, since a plugin with three settings does not need a parser for all of JSON: read it with
/// the crate of your choice, or as a struct (`settings_as`, feature `serde`). [`crate::Plugin::check_settings`] checks
/// it before the plugin serves. In native tests [`crate::testing::with_settings`] sets it.
#[must_use]
pub fn settings() -> String {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::settings();
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::settings()
}
