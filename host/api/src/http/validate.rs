//! `POST <item>/_validate`: what a PUT would store, without storing it or looking at what is stored.

use axum::response::{IntoResponse as _, Response};
use mortise_resource::pb;
use serde_json::json;

use super::{
    dispatch::Asked,
    fault::{Fault, diagnostic},
    item::JSON,
    json::pretty,
};
use crate::call::{guarded, span};

/// The mutated resource, and the warnings of validation.
pub(super) async fn validate(mut asked: Asked, name: String) -> Result<Response, Fault> {
    let resource = asked.resource(name).await?;
    let caller = asked.query.caller(&asked.parts.headers);
    let span = span("MutateAndValidate", resource.id.as_ref());
    let request = pb::MutateAndValidateRequest { resource: Some(resource) };
    let judged = guarded(span, Box::pin(asked.shared.service.mutate_and_validate(&caller, request))).await?;
    let warnings: Vec<_> = judged.warnings.iter().map(diagnostic).collect();
    let resource = asked.printer()?.value(judged.resource.unwrap_or_default());
    Ok(([JSON], pretty(&json!({ "resource": resource, "warnings": warnings }))).into_response())
}
