//! Links to other pages of a query (RFC 8288).

use axum::http::{HeaderName, HeaderValue, Uri, header::LINK};
use form_urlencoded::Serializer;

/// Longest header, bytes: clients have small limits for headers.
const MAX_LINK_BYTES: usize = 4_096;

/// Parameters that a link does not keep: those of the position, under all their names, and secrets.
const DROPPED_PARAMETERS: [&str; 5] = ["page_token", "page-token", "continue", "at", "token"];

/// The links of a page to its neighbours, as a header; `None` without neighbours, or if a link is too long. The other
/// parameters of the request stay, except for a token. `at` is the version of the pages, if they are of one version.
pub(super) fn pages(uri: &Uri, next: &str, previous: &str, at: &str) -> Option<(HeaderName, HeaderValue)> {
    let links = [(next, "next"), (previous, "prev")].into_iter().filter(|(token, _)| !token.is_empty());
    let links: Vec<_> = links.map(|(token, relation)| link(uri, token, relation, at)).collect();
    let text = links.join(", ");
    if text.is_empty() || text.len() > MAX_LINK_BYTES {
        return None;
    }
    Some((LINK, HeaderValue::try_from(text).ok()?))
}

fn link(uri: &Uri, token: &str, relation: &str, at: &str) -> String {
    let mut query = Serializer::new(String::new());
    for (key, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        if !DROPPED_PARAMETERS.contains(&key.as_ref()) {
            query.append_pair(&key, &value);
        }
    }
    if !at.is_empty() {
        query.append_pair("at", at);
    }
    query.append_pair("page_token", token);
    format!("<{}?{}>; rel=\"{relation}\"", uri.path(), query.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_keep_the_query_but_not_its_position_or_secret() {
        let uri =
            Uri::from_static("/api/demo/v2/artist?page_size=2&filter=a+%3D+%22b%22&continue=x&token=secret&at=now");
        let header =
            |next, previous, at| pages(&uri, next, previous, at).map(|(_, value)| value.to_str().unwrap().to_owned());
        let kept = "/api/demo/v2/artist?page_size=2&filter=a+%3D+%22b%22";
        assert_eq!(header("n+", "", "").unwrap(), format!("<{kept}&page_token=n%2B>; rel=\"next\""));
        assert_eq!(
            header("n", "p", "7").unwrap(),
            format!("<{kept}&at=7&page_token=n>; rel=\"next\", <{kept}&at=7&page_token=p>; rel=\"prev\"")
        );
        assert_eq!(header("", "", "7"), None);
        assert_eq!(header(&"x".repeat(MAX_LINK_BYTES), "", ""), None);
    }
}
