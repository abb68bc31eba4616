//! The query and the headers of a request. Parameters that are not known are ignored, as Consul does; of one
//! that is given twice, the first counts.

use axum::http::{HeaderMap, header::AUTHORIZATION, request::Parts};
use mortise_resource::pb;
use mortise_service::{Caller, Source};

use crate::call;

/// The caller's token, as a header.
const TOKEN: &str = "x-consul-token";

/// The parameters of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Of a request.
    pub(super) fn of(parts: &Parts) -> Self {
        Self::parse(parts.uri.query().unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// Where; empty units are left to the service. `ns` is short for `namespace`.
    pub(super) fn tenancy(&self) -> pb::Tenancy {
        let namespace = Some(self.get("namespace")).filter(|ns| !ns.is_empty()).unwrap_or_else(|| self.get("ns"));
        pb::Tenancy { partition: self.get("partition").to_owned(), namespace: namespace.to_owned() }
    }

    /// The version that a write or a deletion is for; empty for none.
    pub(super) fn version(&self) -> String {
        self.get("version").to_owned()
    }

    /// What names begin with.
    pub(super) fn name_prefix(&self) -> String {
        self.get("name_prefix").to_owned()
    }

    /// Whether events are wanted. The name alone will do; `false` and `0` mean no.
    pub(super) fn watch(&self) -> bool {
        self.has("watch") && !matches!(self.get("watch"), "false" | "0")
    }

    /// The caller of a request about one resource: `consistent` and, from Consul's command line, anything for
    /// `RequireConsistent` ask for a strong read.
    pub(super) fn caller(&self, head: &Parts) -> Caller {
        self.caller_with(head, !self.get("RequireConsistent").is_empty())
    }

    /// The caller of a request about many; here Consul takes `RequireConsistent` for `true` only.
    pub(super) fn caller_of_list(&self, head: &Parts) -> Caller {
        self.caller_with(head, self.get("RequireConsistent") == "true")
    }

    fn caller_with(&self, head: &Parts, required: bool) -> Caller {
        let source = head.extensions.get::<Source>().copied().unwrap_or_default();
        call::caller(self.token(&head.headers), required || self.has("consistent"), source)
    }

    /// The token: a parameter, else a header, else a bearer.
    fn token<'a>(&'a self, headers: &'a HeaderMap) -> Option<&'a str> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = || {
            let (scheme, token) = header(AUTHORIZATION.as_str())?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
        };
        let given = |token: &&str| !token.is_empty();
        Some(self.get("token")).filter(given).or_else(|| header(TOKEN).filter(given)).or_else(bearer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mortise_service::Consistency;

    #[test]
    fn places() {
        let place = |text: &str| {
            let tenancy = Query::parse(text).tenancy();
            (tenancy.partition, tenancy.namespace)
        };
        let of = |p: &str, n: &str| (p.to_owned(), n.to_owned());
        assert_eq!(place(""), of("", ""));
        assert_eq!(place("partition=p&namespace=n"), of("p", "n"));
        assert_eq!(place("ns=n"), of("", "n"));
        assert_eq!(place("ns=a&namespace=b"), of("", "b"));
        assert_eq!(place("ns=a&namespace="), of("", "a"));
        assert_eq!(place("partition=a&partition=b"), of("a", ""));
        assert_eq!(place("partition=%2A&peer=x&peer_name=y&dc=z"), of("*", ""));
    }

    #[test]
    fn consistency() {
        let strong = |text: &str| {
            let query = Query::parse(text);
            let (head, ()) = axum::http::Request::new(()).into_parts();
            let is = |caller: Caller| caller.consistency == Consistency::Consistent;
            (is(query.caller(&head)), is(query.caller_of_list(&head)))
        };
        assert_eq!(strong(""), (false, false));
        assert_eq!(strong("consistent"), (true, true));
        assert_eq!(strong("consistent="), (true, true));
        assert_eq!(strong("RequireConsistent=true"), (true, true));
        assert_eq!(strong("RequireConsistent=1"), (true, false));
        assert_eq!(strong("RequireConsistent="), (false, false));
        assert_eq!(strong("Consistent"), (false, false));
    }

    #[test]
    fn tokens() {
        let mut headers = HeaderMap::new();
        assert_eq!(Query::parse("").token(&headers), None);
        headers.insert(AUTHORIZATION, "bearer c".parse().unwrap());
        assert_eq!(Query::parse("").token(&headers), Some("c"));
        headers.insert(TOKEN, "b".parse().unwrap());
        assert_eq!(Query::parse("token=").token(&headers), Some("b"));
        assert_eq!(Query::parse("token=a").token(&headers), Some("a"));
        headers.clear();
        headers.insert(AUTHORIZATION, "Basic c".parse().unwrap());
        assert_eq!(Query::parse("").token(&headers), None);
    }

    #[test]
    fn watches() {
        for (text, wanted) in [("watch", true), ("watch=", true), ("watch=true", true), ("watch=1", true)] {
            assert_eq!(Query::parse(text).watch(), wanted, "{text}");
        }
        for text in ["", "watch=false", "watch=0", "Watch", "watched"] {
            assert!(!Query::parse(text).watch(), "{text}");
        }
    }
}
