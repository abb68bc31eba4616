//! `/`: the server, its state, its paths and its types, as JSON. Browsers are led to the page.
//!
//! # Contract
//! A caller without permissions sees neither the version nor the types.

use std::collections::BTreeMap;

use axum::{
    Extension,
    extract::State,
    http::{
        HeaderMap, HeaderName, HeaderValue,
        header::{ACCEPT, VARY},
    },
    response::{IntoResponse as _, Redirect, Response},
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

const VARIES: (HeaderName, HeaderValue) = (VARY, HeaderValue::from_static("accept"));

/// The paths that do not depend on types.
const LINKS: [(&str, &str); 7] = [
    ("types", "/v1/types"),
    ("rpcs", "/rpc"),
    ("openapi", "/v1/openapi.json"),
    ("version", "/v1/version"),
    ("health", "/healthz"),
    ("readiness", "/readyz"),
    ("metrics", "/metrics"),
];

/// GET: answers the links.
pub(super) async fn root(
    State(shared): State<Shared>,
    Extension(by): Extension<Authenticated>,
    headers: HeaderMap,
) -> Response {
    if cfg!(feature = "ui") && prefers_html(headers.get_all(ACCEPT).iter()) {
        return ([VARIES], Redirect::to("/ui/")).into_response();
    }
    let knows = by.authorizer.has_permissions();
    let (status, _) = readiness(shared.ready.clone(), WriteHealth::new(&shared.service)).await;
    let types: Option<BTreeMap<_, _>> = knows.then(|| {
        let registry = shared.service.types();
        registry.types().iter().map(|t| (t.gvk.to_string(), collection_path(&t.gvk))).collect()
    });
    let links: Map<_, _> = LINKS.iter().map(|(name, path)| ((*name).to_owned(), json!(path))).collect();
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
