//! The query and the headers of a request. Parameters that are not known are ignored, as Consul does; of one
//! that is given twice, the first counts.

use axum::http::{Uri, request::Parts};
use mortise_resource::pb;
use mortise_service::{Caller, Source};

use crate::{authenticate::Authenticated, call};

/// The parameters of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Of a request.
    pub(super) fn of(parts: &Parts) -> Self {
        Self::of_uri(&parts.uri)
    }

    /// Of a request to there.
    pub(super) fn of_uri(uri: &Uri) -> Self {
        Self::parse(uri.query().unwrap_or_default())
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
    pub(super) fn caller(&self, head: &Parts, by: &Authenticated) -> Caller {
        self.caller_with(head, by, !self.get("RequireConsistent").is_empty())
    }

    /// The caller of a request about many; here Consul takes `RequireConsistent` for `true` only.
    pub(super) fn caller_of_list(&self, head: &Parts, by: &Authenticated) -> Caller {
        self.caller_with(head, by, self.get("RequireConsistent") == "true")
    }

    fn caller_with(&self, head: &Parts, by: &Authenticated, required: bool) -> Caller {
        let source = head.extensions.get::<Source>().copied().unwrap_or_default();
        call::caller(by, required || self.has("consistent"), source)
    }

    /// The token, where a parameter gives one; headers may have another, which then does not count.
    pub(super) fn token(&self) -> Option<&str> {
        Some(self.get("token")).filter(|token| !token.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authenticate::Peer;
    use axum::http::HeaderMap;
    use mortise_service::{Consistency, Origin, Remote, Surface};
    use std::sync::Arc;

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
            let origin = Arc::new(Origin::new(Surface::Http, Remote::Unknown, None));
            let by = Authenticated::of(None, None, &HeaderMap::new(), Peer::default(), origin).unwrap();
            let (head, ()) = axum::http::Request::new(()).into_parts();
            let is = |caller: Caller| caller.consistency == Consistency::Consistent;
            (is(query.caller(&head, &by)), is(query.caller_of_list(&head, &by)))
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
    fn watches() {
        for (text, wanted) in [("watch", true), ("watch=", true), ("watch=true", true), ("watch=1", true)] {
            assert_eq!(Query::parse(text).watch(), wanted, "{text}");
        }
        for text in ["", "watch=false", "watch=0", "Watch", "watched"] {
            assert!(!Query::parse(text).watch(), "{text}");
        }
    }
}
