//! The auth service on gRPC: identity and permissions of the caller.

use mortise_resource::{
    Code, Error,
    authorizer::{Authorizer as _, Verb},
    data,
    grpc::mortise::auth_service_server::AuthService,
};
use mortise_service::ResourceService;
use tonic::{Request, Response, Status};

use super::{resource_service::caller_of, status::answer};
use crate::{authenticate::Authenticated, call::span};

/// The service, for gRPC.
pub(crate) struct AuthApi(pub(crate) ResourceService);

#[tonic::async_trait]
impl AuthService for AuthApi {
    async fn who_am_i(&self, request: Request<data::WhoAmIRequest>) -> Result<Response<data::WhoAmIResponse>, Status> {
        let caller = caller_of(&request)?;
        let identity = request.extensions().get::<Authenticated>().and_then(|by| by.identity.as_deref());
        let known = identity.map(|identity| data::WhoAmIResponse {
            name: identity.caller().to_owned(),
            accessor_id: identity.accessor().to_owned(),
            policies: identity.policies().to_vec(),
            partition: identity.default_tenancy().map(|own| own.partition.clone()).unwrap_or_default(),
            namespace: identity.default_tenancy().map(|own| own.namespace.clone()).unwrap_or_default(),
            expires_at: identity.expires_at().map(Into::into),
            enforced: true,
        });
        let everyone =
            || data::WhoAmIResponse { name: caller.authorizer.caller().to_owned(), ..data::WhoAmIResponse::default() };
        Ok(Response::new(known.unwrap_or_else(everyone)))
    }

    async fn can_i(&self, request: Request<data::CanIRequest>) -> Result<Response<data::CanIResponse>, Status> {
        let caller = caller_of(&request)?;
        let data::CanIRequest { verb, id } = request.into_inner();
        let span = span("auth.CanI", id.as_ref());
        answer(span, async {
            let verb = match verb.as_str() {
                "read" => Verb::Read,
                "list" | "watch" => Verb::List,
                "write" => Verb::Write,
                "delete" => Verb::Delete,
                _ => {
                    let text = format!("verb invalid: {verb:?}; use read, list, watch, write or delete");
                    return Err(Error::invalid(text));
                }
            };
            match Box::pin(self.0.check_allowed(&caller, verb, id)).await {
                Ok(()) => Ok(data::CanIResponse { allowed: true, reason: String::new() }),
                Err(error) if error.code == Code::PermissionDenied => {
                    Ok(data::CanIResponse { allowed: false, reason: error.message })
                }
                Err(error) => Err(error),
            }
        })
        .await
    }
}
