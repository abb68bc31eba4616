//! Settings `[plugin.routes.settings]`: `listen`, the address of nginx; `follow_services`, whether Routes may name
//! services of the plugin `catalog`; `resolver`, the DNS server that nginx asks for host names of upstreams.

use std::net::SocketAddr;

use mortise_plugin::{Diagnostics, setting};
use serde_json::{Map, Value};

/// Default address at which nginx takes requests.
const LISTEN: &str = "127.0.0.1:8080";

/// Setting that switches on the controller of services.
pub(crate) const FOLLOW_SERVICES: &str = "follow_services";

/// Setting with the DNS server of nginx.
const RESOLVER: &str = "resolver";

/// The part of the settings that the files of nginx depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Nginx {
    /// Address at which nginx takes requests.
    pub(crate) listen: String,
    /// DNS server that nginx asks for host names; without one, nginx resolves them when it loads its files.
    pub(crate) resolver: Option<String>,
}

/// Checks the settings.
pub(crate) fn check(settings: &str, diagnostics: &mut Diagnostics) {
    let settings = match serde_json::from_str::<Map<String, Value>>(settings) {
        Ok(settings) => settings,
        Err(fault) => {
            diagnostics.error(format!("must be a JSON object: {fault}"));
            return;
        }
    };
    for (key, value) in &settings {
        if key == FOLLOW_SERVICES {
            if !value.is_boolean() {
                diagnostics.error(format!("must be true or false; got {value}")).at(setting(key));
            }
        } else if !matches!(key.as_str(), "listen" | RESOLVER) {
            let text = "is not a setting of this plugin; use `listen`, `follow_services` or `resolver`";
            diagnostics.error(text).at(setting(key));
        } else if !value.as_str().is_some_and(is_listen) {
            diagnostics
                .error(format!("must be an IP address and a port such as {LISTEN:?} or \"0.0.0.0:80\"; got {value}"))
                .at(setting(key));
        }
    }
}

impl Nginx {
    /// Reads the settings.
    pub(crate) fn of(settings: &str) -> Self {
        // Checked when the plugin was loaded.
        let settings = serde_json::from_str::<Map<String, Value>>(settings).unwrap_or_default();
        let address = |key: &str| settings.get(key).and_then(Value::as_str).filter(|text| is_listen(text));
        Self { listen: address("listen").unwrap_or(LISTEN).to_owned(), resolver: address(RESOLVER).map(str::to_owned) }
    }
}

/// Whether nginx accepts the address, too: it must not have a scope.
pub(crate) fn is_listen(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_hexdigit() || b".:[]".contains(&byte));
    plain && text.parse::<SocketAddr>().is_ok_and(|address| address.port() != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(settings: &str) -> Vec<String> {
        let mut diagnostics = Diagnostics::new();
        check(settings, &mut diagnostics);
        diagnostics.iter().map(|one| format!("{}: {}", one.path, one.summary)).collect()
    }

    #[test]
    fn where_to_listen() {
        let listen = |settings: &str| Nginx::of(settings).listen;
        assert_eq!(listen("{}"), LISTEN);
        for good in ["0.0.0.0:80", "[::]:80", "192.0.2.1:65535"] {
            let settings = format!(r#"{{"listen":"{good}"}}"#);
            assert_eq!((said(&settings), listen(&settings)), (vec![], good.to_owned()));
        }
        for bad in [
            r#""80""#,
            "80",
            r#""*:80""#,
            r#""a:80""#,
            r#""1.2.3.4:0""#,
            r#""[fe80::1%1]:80""#,
            r#""1.2.3.4:80;""#,
            "[]",
        ] {
            let settings = format!(r#"{{"listen":{bad}}}"#);
            assert!(matches!(&*said(&settings), [one] if one.starts_with("listen: must be an IP address")), "{bad}");
            assert_eq!(listen(&settings), LISTEN);
        }
    }

    #[test]
    fn others_are_refused() {
        assert_eq!(said("{}"), [""; 0]);
        assert_eq!(
            said(r#"{"lisen":"0.0.0.0:80"}"#),
            ["lisen: is not a setting of this plugin; use `listen`, `follow_services` or `resolver`"]
        );
        assert_eq!(said(r#"{"follow_services":1}"#), ["follow_services: must be true or false; got 1"]);
        assert_eq!(said(r#"{"follow_services":true}"#), [""; 0]);
        assert!(said("[]").concat().contains("must be a JSON object"));
        assert!(said(r#"{"resolver":"dns.example:53"}"#).concat().starts_with("resolver: must be an IP address"));
        assert_eq!(Nginx::of(r#"{"resolver":"[::1]:53"}"#).resolver.as_deref(), Some("[::1]:53"));
        assert_eq!(Nginx::of("{}").resolver, None);
    }
}
