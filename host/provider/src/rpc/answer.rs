//! Answers of calls: the session of a request, faults as diagnostics, the type that a request names.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::session::{Session, resource};
use crate::{
    proto::tfplugin6::{self as pb, Diagnostic},
    schema::{ProviderSchema, ResourceSchema},
};

/// Answer to a call.
pub(super) type Answer<T> = Result<Response<T>, Status>;
/// Diagnostics of a failed call.
pub(super) type Faults = Vec<Diagnostic>;

/// The session of a request's connection; the listener attaches it.
pub(super) fn session<T>(request: &Request<T>) -> Result<Arc<Session>, Status> {
    request
        .extensions()
        .get::<Arc<Session>>()
        .cloned()
        .ok_or_else(|| Status::internal("a connection without a session"))
}

/// Answers a call.
pub(super) fn answer<T>(message: T) -> Answer<T> {
    Ok(Response::new(message))
}

/// An answer that can hold the faults of a failed call.
pub(super) trait Failed: Default {
    fn failed(diagnostics: Faults) -> Self;
}

macro_rules! answers_with_diagnostics {
    ($($call:ident),*) => {
        $(impl Failed for pb::$call::Response {
            #[allow(clippy::needless_update, reason = "some answers hold nothing but diagnostics")]
            fn failed(diagnostics: Faults) -> Self {
                Self { diagnostics, ..Self::default() }
            }
        })*
    };
}

answers_with_diagnostics!(
    get_functions,
    validate_provider_config,
    validate_resource_config,
    validate_data_resource_config,
    upgrade_resource_state,
    configure_provider,
    import_resource_state,
    move_resource_state,
    read_data_source,
    get_resource_identity_schemas,
    upgrade_resource_identity,
    validate_ephemeral_resource_config,
    open_ephemeral_resource,
    renew_ephemeral_resource,
    close_ephemeral_resource,
    validate_list_resource_config,
    validate_action_config,
    plan_action
);

/// Answers a call with the result of its work. Faults become the diagnostics of an answer that is empty otherwise.
pub(super) async fn answer_with<Q, R: Failed>(
    request: Request<Q>,
    work: impl AsyncFnOnce(&Session, &Q) -> Result<R, Faults>,
) -> Answer<R> {
    let session = session(&request)?;
    answer(work(&session, request.get_ref()).await.unwrap_or_else(R::failed))
}

/// The type of a request, and the schema that has it.
pub(super) struct KnownType {
    pub(super) schema: Arc<ProviderSchema>,
    name: String,
}

impl KnownType {
    pub(super) async fn of(session: &Session, name: &str) -> Result<Self, Faults> {
        Ok(Self { schema: session.schema().await?, name: name.to_owned() })
    }

    pub(super) fn resource(&self) -> Result<&ResourceSchema, Faults> {
        resource(&self.schema, &self.name)
    }
}
