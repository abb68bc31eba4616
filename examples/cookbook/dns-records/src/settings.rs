//! Settings `[plugin.dns-records.settings]`: where the provider is, and how to log in.

use mortise_plugin::{Diagnostics, setting};
use serde::Deserialize;

/// Settings of the plugin.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Settings {
    /// URL of the provider's API, without a slash at its end.
    pub(crate) endpoint: String,
    /// Bearer token; without one, the granted secret `token` is used.
    pub(crate) token: Option<String>,
    /// Seconds until the next attempt after a failed one, unless the provider names a time.
    #[serde(default = "retry_seconds")]
    pub(crate) retry_seconds: u64,
}

const fn retry_seconds() -> u64 {
    30
}

impl mortise_plugin::Settings for Settings {
    fn check(&self, diagnostics: &mut Diagnostics) {
        if !self.endpoint.starts_with("http") || self.endpoint.ends_with('/') {
            let text = "must be a URL such as \"https://dns.example.org/v1\", without a slash at its end";
            diagnostics.error(text).at(setting("endpoint"));
        }
    }
}
