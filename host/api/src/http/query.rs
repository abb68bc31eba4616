//! The query and the headers of a request.
//!
//! # Contract
//! A request that changes something has only known parameters: a misspelt condition must not be passed over. Other
//! requests ignore unknown parameters, as Consul does, but for those by which other APIs filter or page: these are
//! other names of ours, or refused. Of a repeated parameter the first counts. Parameters of queries by content may have
//! hyphens, like flags of the command line.

use std::sync::Arc;

use axum::http::{Uri, request::Parts};
use mortise_query::label_selector;
use mortise_resource::{Error, data::SearchRequest, goten::View, pb, split_paths};
use mortise_service::{Caller, Reader, Source};
use prost_types::FieldMask;

use super::error::{ErrorKind, HttpError};
use crate::{authenticate::Authenticated, call};

/// Parameters that make a request a query by content.
const SEARCH_PARAMETERS: [&str; 12] = [
    "selector",
    "filter",
    "order_by",
    "sort_by",
    "fields",
    "view",
    "page_size",
    "page_token",
    "explain",
    "paging_info",
    "resume_token",
    "at",
];

/// Parameters of a request that changes something, besides `version`.
const CHANGE_PARAMETERS: [&str; 6] = ["partition", "namespace", "ns", "token", "consistent", "RequireConsistent"];

/// Parameters that Consul's clients send with any request, without an effect here.
const CONSUL_PARAMETERS: [&str; 6] = ["dc", "peer", "peer_name", "relay-factor", "pretty", "stale"];

/// Names of other APIs for parameters of queries.
const OTHER_NAMES: [(&str, &str); 6] = [
    ("generateName", "generate_name"),
    ("limit", "page_size"),
    ("labelSelector", "selector"),
    ("label_selector", "selector"),
    ("label-selector", "selector"),
    ("continue", "page_token"),
];

/// Parameters of other APIs without the same meaning here, and what to use. Ignored, they would answer more than was
/// asked for, or in another order.
const FOREIGN_PARAMETERS: [(&str, &str); 14] = [
    ("fieldSelector", "filter, such as filter=data.name = \"a\""),
    ("field_selector", "filter, such as filter=data.name = \"a\""),
    ("resourceVersion", "at, or resume_token for a watch"),
    ("offset", "page_size and page_token"),
    ("page", "page_size and page_token"),
    ("per_page", "page_size"),
    ("sort", "order_by"),
    ("sortBy", "order_by"),
    ("orderBy", "order_by"),
    ("pageSize", "page_size"),
    ("pageToken", "page_token"),
    ("prefix", "name_prefix"),
    ("q", "filter"),
    ("search", "filter"),
];

/// The parameters of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the query of a request.
    pub(super) fn from_parts(parts: &Parts) -> Self {
        Self::from_uri(&parts.uri)
    }

    /// Parses the query of a URI.
    pub(super) fn from_uri(uri: &Uri) -> Self {
        Self::parse(uri.query().unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let ours = |key: String| match OTHER_NAMES.iter().find(|(other, _)| *other == key) {
            Some((_, name)) => (*name).to_owned(),
            None => key,
        };
        let pairs = form_urlencoded::parse(text.as_bytes()).into_owned();
        Self(pairs.map(|(key, value)| (ours(key), value)).collect())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The tenancy; the service fills empty units. `ns` is short for `namespace`.
    pub(super) fn tenancy(&self) -> pb::Tenancy {
        let namespace = Some(self.get("namespace")).filter(|ns| !ns.is_empty()).unwrap_or_else(|| self.get("ns"));
        pb::Tenancy { partition: self.get("partition").to_owned(), namespace: namespace.to_owned() }
    }

    /// The version that a write or a deletion expects; empty for none.
    ///
    /// # Errors
    /// 400: an unknown parameter, or a version that is empty or repeated.
    pub(super) fn version_of_change(&self) -> Result<String, HttpError> {
        self.check_change(&["version"])?;
        let mut versions = self.0.iter().filter(|(key, _)| key == "version").map(|(_, value)| value);
        match (versions.next(), versions.next()) {
            (None, _) => Ok(String::new()),
            (Some(version), _) if version.is_empty() => {
                Err(refused("parameter version is empty; name the stored version, or leave the parameter out"))
            }
            (Some(version), None) => Ok(version.clone()),
            (Some(_), Some(_)) => Err(refused("parameter version is given twice; give it once")),
        }
    }

    /// The start of the name that the server completes.
    ///
    /// # Errors
    /// 400: an unknown parameter.
    pub(super) fn name_of_creation(&self) -> Result<&str, HttpError> {
        self.check_change(&["generate_name"])?;
        Ok(self.get("generate_name"))
    }

    /// Checks the parameters of a request that changes something; `more` are those of its kind.
    ///
    /// # Errors
    /// 400: an unknown parameter.
    pub(super) fn check_change(&self, more: &[&str]) -> Result<(), HttpError> {
        let known =
            |key: &str| CHANGE_PARAMETERS.contains(&key) || CONSUL_PARAMETERS.contains(&key) || more.contains(&key);
        match self.0.iter().find(|(key, _)| !known(key)) {
            None => Ok(()),
            Some((key, _)) => {
                let all = ["partition", "namespace"].iter().chain(more).copied().collect::<Vec<_>>().join(", ");
                Err(refused(format!("parameter {key:?} is unknown here; use {all}, or leave it out")))
            }
        }
    }

    /// Checks the parameters of an RPC, each of which is there once at most; `known` are its own.
    ///
    /// # Errors
    /// 400: an unknown or repeated parameter.
    pub(super) fn check_rpc(&self, known: &[&str]) -> Result<(), HttpError> {
        for (position, (key, _)) in self.0.iter().enumerate() {
            if key != "token" && !known.contains(&key.as_str()) {
                let next = match known {
                    [] => "the fields of the message are in the body".to_owned(),
                    known => format!("use {}", known.join(", ")),
                };
                return Err(refused(format!("parameter {key:?} is unknown here; {next}")));
            }
            if self.0.iter().skip(position + 1).any(|(other, _)| other == key) {
                return Err(refused(format!("parameter {key:?} is there twice; leave one of them out")));
            }
        }
        Ok(())
    }

    /// The value of a parameter; empty without it.
    pub(super) fn value(&self, name: &str) -> &str {
        self.get(name)
    }

    /// Returns true if a parameter is set. Its name alone is enough.
    ///
    /// # Errors
    /// 400: the value is neither `true` nor `false`.
    pub(super) fn flag(&self, name: &str) -> Result<bool, HttpError> {
        match self.get(name) {
            "" => Ok(self.has(name)),
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(refused(format!("parameter {name:?} is {other:?}; it takes true or false"))),
        }
    }

    /// Checks the parameters of a read.
    ///
    /// # Errors
    /// 400: a parameter of other APIs that this one does not have.
    pub(super) fn check_read(&self) -> Result<(), HttpError> {
        match FOREIGN_PARAMETERS.iter().find(|(name, _)| self.has(name)) {
            None => Ok(()),
            Some((name, ours)) => Err(refused(format!("parameter {name:?} is unknown here; use {ours}"))),
        }
    }

    /// The text that the names of a list begin with; empty for all.
    pub(super) fn name_prefix(&self) -> String {
        self.get("name_prefix").to_owned()
    }

    /// Whether events are requested. The name alone is enough; `false` and `0` mean no.
    pub(super) fn watch(&self) -> bool {
        self.has("watch") && !matches!(self.get("watch"), "false" | "0")
    }

    /// Whether the request is a query by content instead of a list.
    pub(super) fn is_search(&self) -> bool {
        SEARCH_PARAMETERS.iter().any(|name| self.has(name) || self.has(&name.replace('_', "-")))
    }

    /// Whether only a part of a resource is requested.
    pub(super) fn has_projection(&self) -> bool {
        self.has("fields") || self.has("view")
    }

    /// Builds the query by content of a type.
    ///
    /// # Errors
    /// `InvalidArgument`: a malformed number, view or selector.
    pub(super) fn search(&self, wanted: pb::Type) -> Result<SearchRequest, Error> {
        let value = |name: &str| match self.get(name) {
            "" => self.get(&name.replace('_', "-")).to_owned(),
            text => text.to_owned(),
        };
        let flag = |name: &str| {
            let text = value(name);
            (self.has(name) || self.has(&name.replace('_', "-"))) && !matches!(text.as_str(), "false" | "0")
        };
        let selector = value("selector");
        let selector = (!selector.is_empty()).then(|| label_selector(&selector)).transpose();
        let (view, field_mask) = self.projection()?;
        let size = value("page_size");
        let page_size = match size.as_str() {
            "" => 0,
            size => size.parse().map_err(|_| Error::invalid(format!("page_size: {size:?} is not a number")))?,
        };
        let order_by = Some(value("order_by")).filter(|order| !order.is_empty()).unwrap_or_else(|| value("sort_by"));
        Ok(SearchRequest {
            parent: self.name_prefix(),
            page_size,
            // An unescaped plus has become a blank, which no token contains.
            page_token: value("page_token").replace(' ', "+"),
            order_by,
            filter: value("filter"),
            field_mask,
            view,
            include_paging_info: flag("paging_info"),
            r#type: Some(wanted),
            tenancy: Some(self.tenancy()),
            selector: selector.map_err(|fault| Error::invalid(fault.to_string()))?,
            explain: flag("explain"),
            at: value("at"),
        })
    }

    /// The end of an earlier watch of the same query.
    pub(super) fn resume_token(&self) -> String {
        Some(self.get("resume_token"))
            .filter(|token| !token.is_empty())
            .unwrap_or_else(|| self.get("resume-token"))
            .to_owned()
    }

    /// The requested part of resources: view and paths.
    ///
    /// # Errors
    /// `InvalidArgument`: an unknown view.
    pub(super) fn projection(&self) -> Result<(i32, Option<FieldMask>), Error> {
        let view = match self.get("view") {
            "" => View::Unspecified,
            name => View::from_str_name(&name.to_uppercase())
                .ok_or_else(|| Error::invalid(format!("view: {name:?} is unknown; use name, basic, detail or full")))?,
        };
        let paths: Vec<String> =
            split_paths(self.get("fields")).map(str::trim).filter(|path| !path.is_empty()).map(str::to_owned).collect();
        Ok((view.into(), (!paths.is_empty()).then_some(FieldMask { paths })))
    }

    /// The caller of a request about one resource. `consistent`, or any value of `RequireConsistent` (from Consul's
    /// command line), requests a strong read.
    pub(super) fn caller(&self, head: &Parts, by: &Authenticated) -> Caller {
        self.caller_with(head, by, !self.get("RequireConsistent").is_empty())
    }

    /// The caller of a request about many resources; here Consul accepts only `true` for `RequireConsistent`.
    pub(super) fn caller_of_list(&self, head: &Parts, by: &Authenticated) -> Caller {
        self.caller_with(head, by, self.get("RequireConsistent") == "true")
    }

    fn caller_with(&self, head: &Parts, by: &Authenticated, required: bool) -> Caller {
        let source = head.extensions.get::<Source>().copied().unwrap_or_default();
        let reader = head.extensions.get::<Arc<Reader>>().cloned();
        let caller = call::caller(by, required || self.has("consistent"), source).with_reader(reader);
        caller.not_older_than(call::at_least(&head.headers))
    }

    /// The token in a parameter; it takes precedence over tokens in headers.
    pub(super) fn token(&self) -> Option<&str> {
        Some(self.get("token")).filter(|token| !token.is_empty())
    }
}

fn refused(what: impl Into<String>) -> HttpError {
    HttpError::new(ErrorKind::Head, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authenticate::Peer;
    use axum::http::HeaderMap;
    use mortise_service::{Consistency, Origin, Remote, Surface};
    #[test]
    fn places() {
        let place = |text: &str| {
            let tenancy = Query::parse(text).tenancy();
            (tenancy.partition, tenancy.namespace)
        };
        let pair = |p: &str, n: &str| (p.to_owned(), n.to_owned());
        assert_eq!(place(""), pair("", ""));
        assert_eq!(place("partition=p&namespace=n"), pair("p", "n"));
        assert_eq!(place("ns=n"), pair("", "n"));
        assert_eq!(place("ns=a&namespace=b"), pair("", "b"));
        assert_eq!(place("ns=a&namespace="), pair("", "a"));
        assert_eq!(place("partition=a&partition=b"), pair("a", ""));
        assert_eq!(place("partition=%2A&peer=x&peer_name=y&dc=z"), pair("*", ""));
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
    fn queries() {
        assert!(!Query::parse("watch&name_prefix=a&dc=x").is_search());
        for text in ["filter=", "selector=a%3Db", "page-size=3", "sort-by=id.name", "explain", "view=full"] {
            assert!(Query::parse(text).is_search(), "{text}");
        }
        let search = |text: &str| Query::parse(text).search(pb::Type::default());
        let all = search(
            "name_prefix=k&page-size=3&sort-by=name&filter=x&selector=a%3Db&fields=a,%20b&view=full&explain&paging_info=0",
        );
        let all = all.unwrap();
        assert_eq!(
            (all.parent.as_str(), all.page_size, all.order_by.as_str(), all.filter.as_str()),
            ("k", 3, "name", "x")
        );
        assert_eq!((all.view(), all.explain, all.include_paging_info), (View::Full, true, false));
        assert_eq!(all.selector.unwrap().match_labels, [("a".to_owned(), "b".to_owned())].into());
        assert_eq!(all.field_mask.unwrap().paths, ["a", "b"]);
        assert_eq!(search("order_by=a&sort_by=b").unwrap().order_by, "a");
        for text in ["page_size=x", "page_size=99999999999", "view=whole", "selector=,"] {
            assert!(search(text).is_err(), "{text}");
        }
    }

    #[test]
    fn changes_have_only_known_parameters() {
        let version = |text: &str| Query::parse(text).version_of_change().ok();
        assert_eq!(version("partition=p&ns=n&token=t&consistent&dc=x&peer=y&stale").as_deref(), Some(""));
        assert_eq!(version("version=7&namespace=n").as_deref(), Some("7"));
        for text in [
            "verison=7",
            "Version=7",
            "version",
            "version=",
            "version=7&version=8",
            "version=7&version=7",
            "name_prefix=a",
        ] {
            assert_eq!(version(text), None, "{text}");
        }
        assert!(Query::parse("version=7").check_change(&[]).is_err());
    }

    #[test]
    fn reads_refuse_what_other_apis_filter_by() {
        let size = |text: &str| Query::parse(text).search(pb::Type::default()).unwrap().page_size;
        assert_eq!([size("limit=3"), size("limit=3&page_size=4"), size("page_size=4")], [3, 3, 4]);
        assert!(Query::parse("labelSelector=a%3Db").is_search() && Query::parse("continue=x").is_search());
        for text in ["fieldSelector=a%3Db", "offset=3", "watch&sort=name", "q=x"] {
            assert!(Query::parse(text).check_read().is_err(), "{text}");
        }
        assert!(Query::parse("dc=x&peer=y&watch&page_size=3&filter=x&other=1").check_read().is_ok());
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
