//! The header `WWW-Authenticate`: the way in which a registry wants a login.

use std::collections::BTreeMap;

/// A challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A name and a password with each request.
    Basic,
    /// A token from an authority.
    Bearer {
        /// Address of the authority.
        realm: String,
        /// Name of the registry there.
        service: Option<String>,
        /// The wanted rights.
        scope: Option<String>,
    },
}

impl Challenge {
    /// Reads a header; `None` for another scheme, and for a bearer challenge without a realm.
    pub(crate) fn read(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut fields = fields(rest);
        let realm = fields.remove("realm")?;
        Some(Self::Bearer { realm, service: fields.remove("service"), scope: fields.remove("scope") })
    }
}

/// Reads `name=value` and `name="value"`, with commas between.
fn fields(text: &str) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let mut rest = text;
    while let Some((name, behind)) = rest.split_once('=') {
        let name = name.trim_matches([' ', ',', '\t']).to_ascii_lowercase();
        let (value, next) = match behind.strip_prefix('"') {
            Some(quoted) => match quoted.split_once('"') {
                Some((value, next)) => (value, next),
                None => break,
            },
            None => behind.split_once(',').unwrap_or((behind, "")),
        };
        fields.insert(name, value.trim().to_owned());
        rest = next;
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_schemes_are_read_and_others_are_not() {
        assert_eq!(Challenge::read("Basic realm=\"r\""), Some(Challenge::Basic));
        let bearer = |realm: &str, service: Option<&str>, scope: Option<&str>| {
            let (service, scope) = (service.map(str::to_owned), scope.map(str::to_owned));
            Some(Challenge::Bearer { realm: realm.to_owned(), service, scope })
        };
        assert_eq!(
            Challenge::read("Bearer realm=\"https://a/t?x=1\",service=\"s\", scope=\"repository:a/b:pull,push\""),
            bearer("https://a/t?x=1", Some("s"), Some("repository:a/b:pull,push"))
        );
        assert_eq!(Challenge::read("bearer Realm=https://a/t"), bearer("https://a/t", None, None));
        for other in ["Negotiate", "", "Bearer service=\"s\"", "Bearer realm=\"open"] {
            assert_eq!(Challenge::read(other), None, "{other}");
        }
    }
}
