//! States of resources that the server does not have yet: a resource that is to change its type, or something outside
//! that is to be imported. Plans change nothing, so the server only makes a dry run for them; applying carries the
//! change out.

use mortise_resource::{
    data::{ImportRequest, MoveRequest},
    pb,
};
use tonic::{Code, Status};

use super::session::Server;
use crate::{
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::{Defaults, Pending, tenancy_of},
    value::Value,
};

/// Makes a dry run of the change, or carries it out; `None` if the resource or the object outside does not exist (any
/// more).
pub(crate) async fn take_over(
    pending: &Pending,
    schema: &ResourceSchema,
    server: &Server,
    prior: &Value,
    dry_run: bool,
) -> Result<Option<pb::Resource>, Vec<Diagnostic>> {
    let (doing, answer) = match pending {
        Pending::Move { from } => {
            let request =
                MoveRequest { id: Some(from.to_id()), version: String::new(), to: Some(schema.kind.clone()), dry_run };
            ("moving", server.client.move_resource(request).await)
        }
        Pending::Import { external_id } => {
            let request = ImportRequest {
                r#type: Some(schema.kind.clone()),
                tenancy: Some(tenancy_of(schema.scope, prior, &Defaults::default())),
                external_id: external_id.clone(),
                name: prior.get("name").as_str().unwrap_or_default().to_owned(),
                dry_run,
            };
            ("importing", server.client.import(request).await)
        }
    };
    unless_missing(answer).map_err(|status| server.faults(doing, &status))
}

fn unless_missing(answer: Result<pb::Resource, Status>) -> Result<Option<pb::Resource>, Status> {
    match answer {
        Ok(resource) => Ok(Some(resource)),
        Err(status) if status.code() == Code::NotFound => Ok(None),
        Err(status) => Err(status),
    }
}
