//! `/`: the server, its state, its paths and its types, as HTML for browsers and as JSON for other clients.
//!
//! # Contract
//! HTML without scripts and without anything from elsewhere. A caller without permissions sees neither the version nor
//! the types.

use std::collections::BTreeMap;

use axum::{
    Extension,
    extract::State,
    http::{
        HeaderMap, HeaderName, HeaderValue,
        header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY},
    },
    response::{IntoResponse as _, Response},
};
use serde_json::{Map, Value, json};

use super::{
    Shared,
    accept::prefers_html,
    health::readiness,
    json::{JSON, pretty},
    route::collection_path,
    version::{NAME, VERSION},
};
use crate::{authenticate::Authenticated, write_health::WriteHealth};

const HTML: (HeaderName, HeaderValue) = (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));

/// The policy of the page: it loads only its own styles.
const POLICY: (HeaderName, HeaderValue) = (
    CONTENT_SECURITY_POLICY,
    HeaderValue::from_static(
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
);

const VARIES: (HeaderName, HeaderValue) = (VARY, HeaderValue::from_static("accept"));

/// The paths that do not depend on types, and their purpose.
const LINKS: [(&str, &str, &str); 6] = [
    ("types", "/v1/types", "The registered types"),
    ("openapi", "/v1/openapi.json", "The API as OpenAPI 3.1"),
    ("version", "/v1/version", "Name and version"),
    ("health", "/healthz", "Whether the process is up"),
    ("readiness", "/readyz", "Whether the server is ready"),
    ("metrics", "/metrics", "Metrics for Prometheus"),
];

/// GET: answers the page.
pub(super) async fn root(
    State(shared): State<Shared>,
    Extension(by): Extension<Authenticated>,
    headers: HeaderMap,
) -> Response {
    let knows = by.authorizer.has_permissions();
    let (status, state) = readiness(shared.ready.clone(), WriteHealth::new(&shared.service)).await;
    let types: Option<BTreeMap<_, _>> = knows.then(|| {
        let registry = shared.service.types();
        registry.types().iter().map(|t| (t.gvk.to_string(), collection_path(&t.gvk))).collect()
    });
    if prefers_html(headers.get_all(ACCEPT).iter()) {
        return ([HTML, POLICY, VARIES], html(knows.then_some(VERSION), state.trim(), types.as_ref())).into_response();
    }
    let links: Map<_, _> = LINKS.iter().map(|(name, path, _)| ((*name).to_owned(), json!(path))).collect();
    let mut root = json!({ "name": NAME, "ready": status.is_success(), "links": links });
    if let (Some(types), Some(root)) = (types, root.as_object_mut()) {
        root.insert("version".to_owned(), json!(VERSION));
        root.insert("types".to_owned(), json!(types));
    }
    ([JSON, VARIES], pretty(&sorted(root))).into_response()
}

fn sorted(mut value: Value) -> Value {
    value.sort_all_objects();
    value
}

/// The page. `types` are names and paths.
fn html(version: Option<&str>, state: &str, types: Option<&BTreeMap<String, String>>) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Mortise</title>\n<style>body {{ font: 1rem/1.5 sans-serif; margin: 2rem; color-scheme: light dark }} \
         td {{ padding-right: 2rem }}</style>\n<h1>Mortise{}</h1>\n<p>Typed resources with checks by plugins. This port \
         speaks JSON. State: <b>{}</b></p>\n<h2>Paths</h2>\n<table>\n",
        version.map(|version| format!(" {}", escaped(version))).unwrap_or_default(),
        escaped(state),
    );
    for (_, path, purpose) in LINKS {
        page.push_str(&row(path, path, purpose));
    }
    page.push_str("</table>\n<h2>Types</h2>\n");
    match types {
        None => page.push_str("<p>A request needs a token with permissions to see them.</p>\n"),
        Some(types) => {
            page.push_str("<table>\n");
            for (name, path) in types {
                page.push_str(&row(path, name, path));
            }
            page.push_str("</table>\n");
        }
    }
    page.push_str("</html>\n");
    page
}

fn row(path: &str, text: &str, purpose: &str) -> String {
    format!("<tr><td><a href=\"{}\">{}</a></td><td>{}</td></tr>\n", escaped(path), escaped(text), escaped(purpose))
}

/// A text for HTML, in attributes, too.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_become_markup() {
        let types = BTreeMap::from([("<b>".to_owned(), "/api/\"onclick='x'&".to_owned())]);
        let page = html(Some("1"), "not ready: <script>", Some(&types));
        assert!(page.contains("<a href=\"/api/&quot;onclick=&#39;x&#39;&amp;\">&lt;b&gt;</a>"), "{page}");
        assert!(page.contains("not ready: &lt;script&gt;") && !page.contains("<script"), "{page}");
    }
}
