//! Pages of listed origins (CORS): `http.allowed_origins`.
//!
//! # Contract
//! A listed origin may use the whole API, and read the headers of its answers. Answers name the origin of the request,
//! never `*`, and allow no cookies or certificates: a page sends its token in a header. Without listed origins nothing
//! here has an effect.

use axum::{
    extract::Request,
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{
            ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
            ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
        },
    },
    response::{IntoResponse as _, Response},
};

use super::options::Allowed;

/// Methods that a page may use.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, PUT, PATCH, POST, DELETE");

/// Headers that a page may send.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "accept, authorization, content-type, if-match, if-none-match, last-event-id, x-consul-token, x-mortise-at-least, \
     x-mortise-signature, x-request-id",
);

/// Headers of answers that a page may read.
const ANSWER_HEADERS: HeaderValue =
    HeaderValue::from_static("accept-patch, allow, etag, link, location, retry-after, warning, x-request-id");

/// Time for which a browser remembers the answer to its question, seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The listed origins. Cheap to clone.
#[derive(Clone)]
pub(super) struct Origins(Allowed);

impl Origins {
    /// The origins of the setting.
    pub(super) fn new(listed: Allowed) -> Self {
        Self(listed)
    }

    /// The origin of a request, if it is a single listed one.
    pub(super) fn listed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let mut origins = headers.get_all(ORIGIN).iter();
        let (origin, None) = (origins.next()?, origins.next()) else { return None };
        let text = origin.to_str().ok()?.to_ascii_lowercase();
        self.0.has_origin(&text).then(|| origin.clone())
    }

    /// Adds the headers for the browser. `listed` is the origin of the request, if it is listed.
    pub(super) fn finish(&self, mut response: Response, listed: Option<HeaderValue>) -> Response {
        let headers = response.headers_mut();
        if self.0.has_origins() {
            // A cache must not answer one origin with the headers for another one.
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        if let Some(origin) = listed {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS);
        }
        response
    }
}

/// The answer to a browser that asks about a request before it sends it; `None` for other requests.
pub(super) fn preflight(request: &Request) -> Option<Response> {
    let asks = request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let headers: [(HeaderName, HeaderValue); 3] = [
        (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS),
        (ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ];
    asks.then(|| (StatusCode::NO_CONTENT, headers).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_single_listed_origin_counts() {
        let origins = Origins::new(Allowed::new(
            &[],
            &["https://App.example.org".to_owned(), "http://localhost:3000".to_owned()],
        ));
        let listed = |sent: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for origin in sent {
                headers.append(ORIGIN, HeaderValue::from_static(origin));
            }
            origins.listed(&headers).is_some()
        };
        assert!(listed(&["https://app.example.org"]) && listed(&["http://localhost:3000"]));
        for sent in [
            &[][..],
            &["null"],
            &["*"],
            &["http://app.example.org"],
            &["https://app.example.org:444"],
            &["https://app.example.org.evil.example"],
            &["https://app.example.org", "https://evil.example"],
            &["https://app.example.org", "https://app.example.org"],
        ] {
            assert!(!listed(sent), "{sent:?}");
        }
    }
}
