//! Keeps web pages away from the API.
//!
//! A browser reaches everything that its machine reaches, and a development server requires no token: a page of any
//! site could write to it. Two checks precede every route except `/healthz` and `/readyz`, which reveal nothing:
//!
//! - The host of a request is one of this server's. A site that makes its own name resolve to 127.0.0.1 (DNS rebinding)
//!   has the same origin for the browser, but `Host` has the site's name. Accepted are `localhost` and names below it,
//!   the literal listening address (any literal address if the server listens on all: a literal address is not
//!   resolved, so it cannot be rebound), `http.allowed_hosts`, and with TLS the DNS names of the server's certificate:
//!   a browser does not connect under other names.
//! - A browser tells the source of a request in `Origin` and `Sec-Fetch-Site`. Requests from another origin are
//!   rejected with any method, except for a link that a user follows (a navigation by GET), and for the origins of
//!   `http.allowed_origins` (`cors`).
//!
//! Clients other than browsers send neither header and pass by the first check alone. The gRPC port needs none of this:
//! in the clear it accepts only HTTP/2 from the first byte on, which no browser speaks, and closes other connections
//! unread; with TLS, requests that a page may send without a preflight do not have gRPC's content type, and are
//! rejected for that (`grpc::content_type`).

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, Method, Uri,
        header::{HOST, ORIGIN},
        uri::Authority,
    },
    middleware::Next,
    response::Response,
};

use super::{
    accept::Form,
    body,
    cors::preflight,
    error::{ErrorKind, HttpError},
    hosts::Hosts,
    shared::Shared,
};

/// The header with the source of a request as the browser sees it: `same-origin`, `same-site`, `cross-site`, or `none`
/// for actions of its user.
const FETCH_SITE_HEADER: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The header with the browser's use of the answer; `navigate` shows it as a page.
const FETCH_MODE_HEADER: HeaderName = HeaderName::from_static("sec-fetch-mode");

impl Hosts {
    /// Refuses a request that names a host of somebody else, or that a page of another origin makes. The origin of the
    /// request is not compared if it is a listed one.
    ///
    /// # Errors
    /// 403, with the next step.
    fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap, is_listed: bool) -> Result<(), HttpError> {
        let named = headers.get_all(HOST).iter().map(|value| value.to_str().unwrap_or("?"));
        let named: Vec<_> = named.chain(uri.authority().map(Authority::as_str)).collect();
        for host in &named {
            if !self.allows(host) {
                return Err(HttpError::new(
                    ErrorKind::UnknownHost,
                    format!(
                        "the host {host:?} is not a name of this server, and a web page may have made it up; \
                         use localhost or the listening address, or add the name to http.allowed_hosts"
                    ),
                ));
            }
        }
        if is_listed {
            return Ok(());
        }
        let foreign = |origin: &str| {
            HttpError::new(
                ErrorKind::CrossOrigin,
                format!(
                    "the request comes from a web page of another origin ({origin}), which may not use this API; call it \
                     from a program, serve the page under the same host and port, or add the origin to \
                     http.allowed_origins"
                ),
            )
        };
        for origin in headers.get_all(ORIGIN) {
            let origin = origin.to_str().unwrap_or("?");
            let authority = origin.split_once("://").map(|(_, authority)| authority);
            if !authority.is_some_and(|authority| named.iter().any(|host| host.eq_ignore_ascii_case(authority))) {
                return Err(foreign(origin));
            }
        }
        let shown = matches!(*method, Method::GET | Method::HEAD)
            && headers.get(FETCH_MODE_HEADER).is_some_and(|mode| mode.as_bytes() == b"navigate");
        match headers.get(FETCH_SITE_HEADER).map(|site| site.to_str().unwrap_or("?")) {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) if shown => Ok(()),
            Some(site) => Err(foreign(site)),
        }
    }
}

/// The middleware in front of every route.
pub(super) async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    if matches!(request.uri().path(), "/healthz" | "/readyz") {
        return next.run(request).await;
    }
    let listed = shared.origins.listed(request.headers());
    match shared.hosts.check(request.method(), request.uri(), request.headers(), listed.is_some()) {
        Ok(()) => {
            let answer = match listed.as_ref().and_then(|_| preflight(&request)) {
                Some(answer) => answer,
                None => next.run(request).await,
            };
            shared.origins.finish(answer, listed)
        }
        Err(fault) => {
            let path = request.uri().path().to_owned();
            body::drain(request.into_body(), shared.options.request_timeout).await;
            fault.into_response(Form::Problem, &path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::options::Allowed, *};

    fn contains(listening: &str, host: &str) -> bool {
        Hosts::new(listening.parse().unwrap(), Allowed::new(&["Api.example.org".to_owned()], &[]), None).allows(host)
    }

    #[test]
    fn hosts_of_this_server_are_known() {
        for host in ["localhost", "LocalHost", "localhost.", "a.localhost", "127.0.0.1", "127.1.2.3", "[::1]"] {
            assert!(contains("127.0.0.1:80", host), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "evillocalhost", "192.0.2.1", "", "127.0.0.1.evil.example"]
        {
            assert!(!contains("127.0.0.1:80", host), "{host}");
        }
        assert!(contains("127.0.0.1:80", "api.EXAMPLE.org") && !contains("127.0.0.1:80", "b.api.example.org"));
        assert!(contains("192.0.2.1:80", "192.0.2.1") && !contains("192.0.2.1:80", "192.0.2.2"));
        assert!(
            contains("[::]:80", "192.0.2.1")
                && contains("0.0.0.0:80", "[2001:db8::1]")
                && !contains("[::]:80", "evil.example")
        );
        assert!(contains("[::ffff:192.0.2.1]:80", "192.0.2.1"));
    }

    fn refused(method: Method, headers: &[(&'static str, &'static str)]) -> bool {
        let hosts = Hosts::new("127.0.0.1:8500".parse().unwrap(), Allowed::default(), None);
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), axum::http::HeaderValue::from_static(value)));
        hosts.check(&method, &Uri::from_static("/api"), &headers.collect(), false).is_err()
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let host = ("host", "localhost:8500");
        assert!(!refused(Method::PUT, &[host]), "no browser");
        assert!(!refused(Method::PUT, &[host, ("origin", "http://localhost:8500"), ("sec-fetch-site", "same-origin")]));
        for origin in ["http://evil.example", "http://localhost:3000", "http://localhost", "null", "localhost:8500"] {
            assert!(refused(Method::PUT, &[host, ("origin", origin)]), "{origin}");
            assert!(refused(Method::GET, &[host, ("origin", origin)]), "{origin}");
        }
        for site in ["cross-site", "same-site", "new-in-some-year"] {
            assert!(refused(Method::DELETE, &[host, ("sec-fetch-site", site)]), "{site}");
            assert!(refused(Method::GET, &[host, ("sec-fetch-site", site), ("sec-fetch-mode", "no-cors")]), "{site}");
            assert!(refused(Method::POST, &[host, ("sec-fetch-site", site), ("sec-fetch-mode", "navigate")]), "{site}");
            assert!(!refused(Method::GET, &[host, ("sec-fetch-site", site), ("sec-fetch-mode", "navigate")]), "a link");
        }
        assert!(!refused(Method::GET, &[host, ("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")]), "typed in");
    }

    #[test]
    fn every_host_of_a_request_counts() {
        assert!(refused(Method::GET, &[("host", "localhost"), ("host", "evil.example")]));
        assert!(refused(Method::GET, &[("host", "evil@localhost")]));
        for host in ["[::1]:8500", "[::1]", "[::1]:", "127.0.0.1:8500", "localhost:"] {
            assert!(!refused(Method::GET, &[("host", host)]), "{host}");
        }
        for host in [
            "[::1].evil.example",
            "[::1].evil.example:8500",
            "[::1]evil.example",
            "[::1]:8500.evil.example",
            "[::1]:8500:8500",
            "[::1]:70000",
            "[::1]/evil",
            "[127.0.0.1]",
            "[::1",
            "::1",
            "[evil.example]",
            "localhost:8500.evil.example",
            "localhost:evil.example",
            "localhost evil.example",
        ] {
            assert!(refused(Method::GET, &[("host", host)]), "{host}");
        }
        assert!(!refused(Method::GET, &[]), "HTTP/1.0, which no browser speaks");
        let hosts = Hosts::new("127.0.0.1:8500".parse().unwrap(), Allowed::default(), None);
        let proxied = Uri::from_static("http://evil.example/api");
        assert!(hosts.check(&Method::GET, &proxied, &HeaderMap::new(), true).is_err());
    }
}
