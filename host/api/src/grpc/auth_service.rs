//! The auth service on gRPC: identity and permissions of the caller.

use mortise_acl::MAX_POLICIES;
use mortise_resource::{
    Error,
    authorizer::{Authorizer as _, Verb},
    data,
    grpc::mortise::auth_service_server::AuthService,
};
use mortise_service::{Asked, ResourceService};
use tonic::{Request, Response, Status};

use super::{call_context::CallContext, resource_service::caller_of, status::answer};
use crate::call::{call_span, span};

/// The service, for gRPC.
pub(crate) struct AuthApi(pub(crate) ResourceService);

#[tonic::async_trait]
impl AuthService for AuthApi {
    async fn who_am_i(&self, request: Request<data::WhoAmIRequest>) -> Result<Response<data::WhoAmIResponse>, Status> {
        let caller = caller_of(&request)?;
        let identity = request.extensions().get::<CallContext>().and_then(|call| call.by.identity.as_deref());
        let known = identity.map(|identity| data::WhoAmIResponse {
            name: identity.caller().to_owned(),
            accessor_id: identity.accessor().to_owned(),
            policies: identity.policies().to_vec(),
            partition: identity.default_tenancy().map(|own| own.partition.clone()).unwrap_or_default(),
            namespace: identity.default_tenancy().map(|own| own.namespace.clone()).unwrap_or_default(),
            expires_at: identity.expires_at().map(Into::into),
            enforced: true,
            policy_faults: identity.policy_faults(),
        });
        let everyone =
            || data::WhoAmIResponse { name: caller.authorizer.caller().to_owned(), ..data::WhoAmIResponse::default() };
        Ok(Response::new(known.unwrap_or_else(everyone)))
    }

    async fn check_policy(
        &self,
        request: Request<data::CheckPolicyRequest>,
    ) -> Result<Response<data::CheckPolicyResponse>, Status> {
        answer(call_span("auth.CheckPolicy"), async {
            let policy = request.into_inner().policy.unwrap_or_default();
            Ok(data::CheckPolicyResponse { warnings: self.0.check_policy(&policy).await? })
        })
        .await
    }

    async fn can_i(&self, request: Request<data::CanIRequest>) -> Result<Response<data::CanIResponse>, Status> {
        let caller = caller_of(&request)?;
        let data::CanIRequest { verb, id, as_token, as_policies } = request.into_inner();
        let span = span("auth.CanI", id.as_ref());
        answer(span, async {
            let is_certify = verb == "certify";
            let verb = match verb.as_str() {
                "read" | "certify" => Verb::Read,
                "list" | "watch" => Verb::List,
                "write" => Verb::Write,
                "delete" => Verb::Delete,
                "escalate" => Verb::Escalate,
                _ => {
                    let text =
                        format!("verb invalid: {verb:?}; use read, list, watch, write, delete, escalate or certify");
                    return Err(Error::invalid(text));
                }
            };
            let asked = match (as_token.is_empty(), as_policies.is_empty()) {
                (true, true) => Asked::Own,
                (false, true) => Asked::Token(as_token),
                (true, false) if as_policies.len() > MAX_POLICIES => {
                    return Err(Error::invalid(format!(
                        "as_policies: at most {MAX_POLICIES}, got {}",
                        as_policies.len()
                    )));
                }
                (true, false) => Asked::Policies(as_policies),
                (false, false) => return Err(Error::invalid("as_token and as_policies exclude each other; set one")),
            };
            let allowed = match is_certify {
                true => {
                    let identity = id.unwrap_or_default().name;
                    Box::pin(self.0.check_certificate(&caller, asked, &identity)).await?
                }
                false => Box::pin(self.0.check_allowed(&caller, asked, verb, id)).await?,
            };
            Ok(match allowed {
                Ok(()) => data::CanIResponse { allowed: true, reason: String::new() },
                Err(refused) => data::CanIResponse { allowed: false, reason: refused.message },
            })
        })
        .await
    }
}
