//! Keeps pages in browsers away from the API.
//!
//! A browser reaches whatever its machine reaches, and a server for development asks for no token: a page of any site
//! could write to it. Two checks stand before every route but `/healthz` and `/readyz`, which say
//! nothing:
//!
//! - The host that a request names is one of this server. A site that makes its own name resolve to 127.0.0.1 (DNS
//!   rebinding) counts as the same origin for the browser, but its name is in `Host`. Known are `localhost` and names
//!   below it, the literal address that is listened on (any literal address where all are listened on: no name has to
//!   be resolved for one, so none can be rebound), `http.allowed_hosts`, and with TLS the DNS names of the server's
//!   certificate: a browser does not connect under a name that the certificate is not for.
//! - A browser says where a request comes from, in `Origin` and `Sec-Fetch-Site`. What comes from another origin is
//!   refused, whatever its method; a link that somebody follows (a navigation by GET) is not.
//!
//! Clients that are no browsers send neither header, and pass by the first check alone. The gRPC port needs none of
//! this: in the clear it takes HTTP/2 from the first byte on, which no browser speaks, and closes anything else unread;
//! with TLS, what a page may send unasked is not of gRPC's content type, and is refused for that (`grpc::content_type`).

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

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
    Shared,
    accept::Form,
    body,
    error::{ErrorKind, HttpError},
};
use crate::tls::Tls;

/// Where a request comes from, in the eyes of the browser: `same-origin`, `same-site`, `cross-site`, or `none` for what
/// its user did.
const FETCH_SITE_HEADER: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a browser wants with the answer; `navigate` is to show it.
const FETCH_MODE_HEADER: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The hosts for which requests are answered. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Hosts {
    listening: IpAddr,
    allowed: Arc<[String]>,
    tls: Option<Arc<Tls>>,
}

impl Hosts {
    /// Those of a server that listens there, with the names of `http.allowed_hosts` and of the certificate.
    pub(crate) fn new(listening: SocketAddr, allowed: &[String], tls: Option<Arc<Tls>>) -> Self {
        let allowed = allowed.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { listening: listening.ip().to_canonical(), allowed, tls }
    }

    fn contains(&self, host: &str) -> bool {
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = address.parse::<IpAddr>() {
            let address = address.to_canonical();
            return self.listening.is_unspecified() || address == self.listening || address.is_loopback();
        }
        let name = host.to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        name == "localhost"
            || name.ends_with(".localhost")
            || self.allowed.iter().any(|allowed| allowed == name)
            || self.tls.as_ref().is_some_and(|tls| tls.names(name))
    }

    /// Refuses a request that names a host of somebody else, or that a page of another origin makes.
    ///
    /// # Errors
    /// 403, with what to do about it.
    fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), HttpError> {
        let named = headers.get_all(HOST).iter().map(|value| value.to_str().unwrap_or("?"));
        let named: Vec<_> = named.chain(uri.authority().map(Authority::as_str)).collect();
        for host in &named {
            let authority = host.parse::<Authority>().ok().filter(|_| !host.contains('@'));
            if !authority.is_some_and(|authority| self.contains(authority.host())) {
                return Err(HttpError::new(
                    ErrorKind::UnknownHost,
                    format!(
                        "this server does not answer for the host {host:?}, which may be a name that a web page made up; \
                         use localhost or the address that is listened on, or add the name to http.allowed_hosts"
                    ),
                ));
            }
        }
        let foreign = |origin: &str| {
            HttpError::new(
                ErrorKind::CrossOrigin,
                format!(
                    "the request comes from a web page of another origin ({origin}), which may not use this API; call it \
                     from a program, or serve the page under the same host and port"
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

/// The middleware before every route.
pub(super) async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    if matches!(request.uri().path(), "/healthz" | "/readyz") {
        return next.run(request).await;
    }
    match shared.hosts.check(request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(fault) => {
            let path = request.uri().path().to_owned();
            body::drain(request.into_body(), shared.options.request_timeout).await;
            fault.into_response(Form::Problem, &path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(listening: &str, host: &str) -> bool {
        Hosts::new(listening.parse().unwrap(), &["Api.example.org".to_owned()], None).contains(host)
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
        let hosts = Hosts::new("127.0.0.1:8500".parse().unwrap(), &[], None);
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), axum::http::HeaderValue::from_static(value)));
        hosts.check(&method, &Uri::from_static("/api"), &headers.collect()).is_err()
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
        assert!(!refused(Method::GET, &[]), "HTTP/1.0, which no browser speaks");
        let hosts = Hosts::new("127.0.0.1:8500".parse().unwrap(), &[], None);
        let proxied = Uri::from_static("http://evil.example/api");
        assert!(hosts.check(&Method::GET, &proxied, &HeaderMap::new()).is_err());
    }
}
