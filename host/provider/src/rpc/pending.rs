//! States of resources that the server does not have yet: a resource that is to change its type, or something outside
//! that is to be imported. Plans change nothing, so the server only makes a dry run for them; applying carries the
//! change out.

use mortise_resource::{
    data::{ImportRequest, MoveRequest},
    pb,
};
use tonic::Code;

use super::{diagnostic::server_diagnostic, session::Server};
use crate::{
    client::resource,
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::{Defaults, Pending, tenancy_of},
    value::Value,
};

/// Makes a dry run of the change, or carries it out; `None` if the resource or the object outside does not exist (any
/// more). Adds the server's warnings to `diagnostics`, unless they are there.
pub(crate) async fn take_over(
    pending: &Pending,
    schema: &ResourceSchema,
    server: &Server,
    prior: &Value,
    dry_run: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Option<pb::Resource>, Vec<Diagnostic>> {
    let (doing, answer) = match pending {
        Pending::Move { from } => {
            let request =
                MoveRequest { id: Some(from.to_id()), version: String::new(), to: Some(schema.kind.clone()), dry_run };
            let answer = server.client.move_resource(request).await;
            ("moving", answer.map(|answer| (answer.resource, answer.warnings)))
        }
        Pending::Import { external_id } => {
            let request = ImportRequest {
                r#type: Some(schema.kind.clone()),
                tenancy: Some(tenancy_of(schema.scope, prior, &Defaults::default())),
                external_id: external_id.clone(),
                name: prior.get("name").as_str().unwrap_or_default().to_owned(),
                dry_run,
            };
            let answer = server.client.import(request).await;
            ("importing", answer.map(|answer| (answer.resource, answer.warnings)))
        }
    };
    let (taken, warnings) = match answer {
        Ok((found, warnings)) => (resource(found), warnings),
        Err(status) if status.code() == Code::NotFound => return Ok(None),
        Err(status) => (Err(status), Vec::new()),
    };
    for warning in warnings.iter().map(server_diagnostic) {
        if !diagnostics.contains(&warning) {
            diagnostics.push(warning);
        }
    }
    taken.map(Some).map_err(|status| server.faults(doing, &status))
}
