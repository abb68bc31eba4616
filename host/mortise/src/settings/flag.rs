//! Help texts of flags that set settings.

use toml::Table;

use super::{environment::variable, table::Config};

/// `what`, then the default and the variable of the setting `key`. `besides` is added to the default.
pub(crate) fn flag_help(key: &str, what: &str, besides: &str) -> String {
    let defaults = Table::try_from(Config::default()).unwrap_or_default();
    let default = defaults.get(key).and_then(|value| value.as_str()).unwrap_or_default();
    format!("{what} [default: {default}{besides}] [env: {}]", variable(key))
}
