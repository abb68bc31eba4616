//! HTTP requests and their answers, as values.

use std::{borrow::Cow, time::Duration};

use crate::Failure;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpRequest {
    /// Method: `GET`, `POST` and so on.
    pub method: String,
    /// URL: `https://host/path?query`, or `http://…`.
    pub url: String,
    /// Names and values of headers, in order. The host sets `host`.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Body.
    pub body: Vec<u8>,
    /// Longest wait, each, for a connection, for the first byte of the answer, and between two pieces of it; the host
    /// has limits of its own.
    pub timeout: Option<Duration>,
}

impl HttpRequest {
    /// Makes a request without headers and body.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self { method: method.into(), url: url.into(), headers: Vec::new(), body: Vec::new(), timeout: None }
    }

    /// Makes a `GET` request.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    /// Makes a `POST` request.
    pub fn post(url: impl Into<String>) -> Self {
        Self::new("POST", url)
    }

    /// Makes a `PUT` request.
    pub fn put(url: impl Into<String>) -> Self {
        Self::new("PUT", url)
    }

    /// Makes a `DELETE` request.
    pub fn delete(url: impl Into<String>) -> Self {
        Self::new("DELETE", url)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a bearer token, in `authorization`.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a shorter timeout than the host's.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Parts of the URL.
    pub(crate) fn parts(&self) -> Result<Parts<'_>, Failure> {
        let wrong =
            || Failure::new(Failure::INVALID, format!("{:?} is not a URL such as \"https://host/path\"", self.url));
        let (scheme, rest) = self.url.split_once("://").ok_or_else(wrong)?;
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.is_empty() {
            return Err(wrong());
        }
        let path = if path.starts_with('/') { Cow::from(path) } else { format!("/{path}").into() };
        Ok(Parts { scheme: scheme.to_ascii_lowercase(), authority, path })
    }
}

/// Parts of a URL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// Scheme, in lower case.
    pub(crate) scheme: String,
    pub(crate) authority: &'a str,
    /// Path with the query.
    pub(crate) path: Cow<'a, str>,
}

impl Parts<'_> {
    /// Failure of a request to a host that is not granted.
    pub(crate) fn denied(&self) -> Failure {
        let Self { scheme, authority, .. } = self;
        // The user part may hold a password.
        if let Some((_, host)) = authority.rsplit_once('@') {
            let text = format!("HTTP requests with a user before {host:?} are not granted; send it in a header");
            return Failure::new(Failure::DENIED, text);
        }
        let entry = if scheme == "https" { String::new() } else { format!("{scheme}://") };
        let text = format!(
            "HTTP requests to {scheme}://{authority} are not granted; grant them with http = [\"{entry}{authority}\"] in \
             [plugin.<name>.grants] of config.toml"
        );
        Failure::new(Failure::DENIED, text)
    }
}

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpResponse {
    /// Status, such as 200.
    pub status: u16,
    /// Names of headers, in lower case, and values.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Whole body.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// Makes an answer without headers and body, for tests.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// Adds a header, for tests.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.into()));
        self
    }

    /// Sets the body, for tests.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Whether the status is one of 200 to 299.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// First value of a header, if it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(one, _)| one.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }

    /// Pause that the answer asks for in `retry-after`, unbounded. `None` for a date, the other form of the header, which
    /// few servers send.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.header("retry-after")?.trim().parse().ok().map(Duration::from_secs)
    }

    /// Body as text.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> Option<(String, String, String)> {
        let request = HttpRequest::get(url);
        let parts = request.parts().ok()?;
        Some((parts.scheme.clone(), parts.authority.to_owned(), parts.path.to_string()))
    }

    #[test]
    fn a_url_has_a_scheme_an_authority_and_a_path() {
        let is = |scheme: &str, authority: &str, path: &str| Some((scheme.into(), authority.into(), path.into()));
        assert_eq!(parts("https://example.org"), is("https", "example.org", "/"));
        assert_eq!(parts("HTTP://example.org:80/a/b?c#d"), is("http", "example.org:80", "/a/b?c"));
        assert_eq!(parts("https://example.org?a=/b"), is("https", "example.org", "/?a=/b"));
        assert_eq!(parts("https://[::1]:8/#x"), is("https", "[::1]:8", "/"));
        // The host decides which part of this is a host.
        assert_eq!(parts("https://allowed@evil/"), is("https", "allowed@evil", "/"));
        for bad in ["", "example.org", "https:/x", "https://", "https:///path", "https://#x"] {
            assert_eq!(parts(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_pause_is_in_seconds() {
        let pause = |text: &str| HttpResponse::new(429).with_header("Retry-After", text).retry_after();
        assert_eq!(pause(" 20 "), Some(Duration::from_secs(20)));
        for none in ["", "-1", "1.5", "99999999999999999999", "Fri, 31 Dec 1999 23:59:59 GMT"] {
            assert_eq!(pause(none), None, "{none}");
        }
        assert_eq!(HttpResponse::new(429).retry_after(), None);
    }

    #[test]
    fn a_denial_names_the_entry_to_add() {
        let denied = |url: &str| HttpRequest::get(url).parts().unwrap().denied().message;
        assert!(denied("https://example.org/x").contains("http = [\"example.org\"]"));
        let user = denied("https://user:s3cret@example.org/");
        assert!(user.contains("a user before \"example.org\"") && !user.contains("s3cret"), "{user}");
        assert!(denied("http://127.0.0.1:80/x").contains("http = [\"http://127.0.0.1:80\"]"));
    }
}
