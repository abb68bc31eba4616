//! Flags that set settings: their help texts and addresses.

use std::net::{AddrParseError, SocketAddr};

use toml::Table;

use super::{environment::variable, table::Config};

/// `what`, then the default and the variable of the setting `key`. `besides` is added to the default.
pub(crate) fn flag_help(key: &str, what: &str, besides: &str) -> String {
    let defaults = Table::try_from(Config::default()).unwrap_or_default();
    let mut parts = key.split('.');
    let first = parts.next().and_then(|part| defaults.get(part));
    let default = match parts.fold(first, |value, part| value?.get(part)) {
        Some(toml::Value::Array(items)) => items.iter().filter_map(|item| item.as_str()).collect::<Vec<_>>().join(","),
        value => value.and_then(|value| value.as_str()).unwrap_or_default().to_owned(),
    };
    format!("{what} [default: {default}{besides}] [env: {}]", variable(key))
}

/// Parses an address to listen on. `localhost` is 127.0.0.1; other names are refused, since they may change.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, AddrParseError> {
    with_local_host(text).parse()
}

/// The address with 127.0.0.1 in place of `localhost`.
pub(super) fn with_local_host(text: &str) -> String {
    text.strip_prefix("localhost:").map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_name_the_local_host_and_no_other() {
        assert_eq!(listen_address("localhost:8502").map(|addr| addr.to_string()).as_deref(), Ok("127.0.0.1:8502"));
        assert_eq!(listen_address("[::1]:0").map(|addr| addr.to_string()).as_deref(), Ok("[::1]:0"));
        for wrong in ["localhost", "localhost:x", "example.com:8502", ""] {
            assert!(listen_address(wrong).is_err(), "{wrong}");
        }
    }
}
