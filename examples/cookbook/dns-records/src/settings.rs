//! Settings `[plugin.dns-records.settings]`: where the provider is, and how to log in.

use mortise_plugin::{Diagnostics, setting, settings};
use serde::Deserialize;

/// Settings of the plugin.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
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

impl Settings {
    /// Reads the settings of the loaded plugin, which [`check`] has accepted.
    pub(crate) fn read() -> Result<Self, serde_json::Error> {
        serde_json::from_str(&settings())
    }
}

/// Checks the settings before the plugin serves.
pub(crate) fn check(text: &str, diagnostics: &mut Diagnostics) {
    match serde_json::from_str::<Settings>(text) {
        Err(fault) => {
            diagnostics.error(format!("the settings of dns-records cannot be read: {fault}"));
        }
        Ok(settings) if !settings.endpoint.starts_with("http") || settings.endpoint.ends_with('/') => {
            let text = "endpoint must be a URL such as \"https://dns.example.org/v1\", without a slash at its end";
            diagnostics.error(text).at(setting("endpoint"));
        }
        Ok(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> String {
        let mut diagnostics = Diagnostics::new();
        check(text, &mut diagnostics);
        diagnostics.iter().map(|one| format!("{}: {}", one.path, one.summary)).collect()
    }

    #[test]
    fn a_wrong_setting_is_named() {
        assert_eq!(findings(r#"{"endpoint": "https://dns.example.org", "token": "t"}"#), "");
        assert!(findings("{}").contains("missing field `endpoint`"));
        assert!(findings(r#"{"endpoint": "https://a", "tokn": "t"}"#).contains("unknown field `tokn`"));
        assert!(findings(r#"{"endpoint": "https://a/"}"#).starts_with("endpoint: endpoint must be a URL"));
    }
}
