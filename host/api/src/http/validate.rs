//! `POST <item>/_validate`: the result that a PUT would store, without storing it or reading the stored resource.

use axum::response::{IntoResponse as _, Response};
use mortise_resource::pb;
use serde_json::json;

use super::{
    error::{HttpError, diagnostic},
    json::{JSON, pretty},
    request::TypeRequest,
};
use crate::call::{run_guarded, span};

/// Answers the mutated resource and the warnings of validation.
pub(super) async fn validate(mut request: TypeRequest, name: String) -> Result<Response, HttpError> {
    let resource = request.resource(name).await?;
    // The version of a PUT is accepted: only the way of the request changes.
    request.query.check_change(&["version"])?;
    let caller = request.caller();
    let span = span("MutateAndValidate", resource.id.as_ref());
    let rpc = pb::MutateAndValidateRequest { resource: Some(resource) };
    let judged = run_guarded(span, Box::pin(request.shared.service.mutate_and_validate(&caller, rpc))).await?;
    let warnings: Vec<_> = judged.warnings.iter().map(diagnostic).collect();
    let resource = request.printer().value(&judged.resource.unwrap_or_default());
    Ok(([JSON], pretty(&json!({ "resource": resource, "warnings": warnings }))).into_response())
}
