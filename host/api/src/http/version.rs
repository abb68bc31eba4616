//! `/v1/version`: name and version of the server.

use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use super::json::{JSON, pretty};

/// The name of the server in its descriptions.
pub(super) const NAME: &str = "mortise";

/// The version of the server.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// GET: answers the version.
pub(super) async fn version() -> Response {
    ([JSON], pretty(&json!({ "name": NAME, "version": VERSION }))).into_response()
}
