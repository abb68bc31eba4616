//! The identity service on gRPC, for Linkerd's proxies: certificates from the authority of `[identity]`
//! ([`crate::authority`]).
//!
//! The caller is the holder of the token in the message, since proxies send it there; without one, the caller of the
//! call. So a proxy renews its certificate with the former one, if the name of that has policies. Every call is
//! recorded in the audit log.

use std::sync::Arc;

use mortise_resource::{Code, Error};
use mortise_service::{Caller, ResourceService};
use tonic::{Request, Response, Status};

use super::{resource_service::caller_of, status::answer};
use crate::{
    authenticate::unknown_caller,
    authority::{Authority, Certified},
    call::{call_span, truncate},
    linkerd::identity::{CertifyRequest, CertifyResponse, identity_server::Identity},
    tls::Tls,
};

/// Most bytes of an identity that the record of a refused call repeats.
const MAX_RECORDED_BYTES: usize = 253;

/// The service, for gRPC.
pub(crate) struct IdentityApi {
    service: ResourceService,
    authority: Arc<Authority>,
    /// The server's own certificate, whose names no other party gets.
    tls: Option<Arc<Tls>>,
}

impl IdentityApi {
    pub(crate) fn new(service: ResourceService, authority: Arc<Authority>, tls: Option<Arc<Tls>>) -> Self {
        Self { service, authority, tls }
    }

    fn check_identity(&self, identity: &str) -> Result<(), Error> {
        self.authority.check_identity(identity)?;
        if self.tls.as_ref().is_some_and(|tls| tls.is_named(identity)) {
            let fault = format!("{identity:?} is a name of this server (tls.cert_file); use another one");
            return Err(Error::invalid(format!("identity: {fault}")).with_violation("identity", fault));
        }
        Ok(())
    }

    async fn certify(&self, caller: Caller, request: CertifyRequest) -> Result<CertifyResponse, Error> {
        let CertifyRequest { identity, token, certificate_signing_request } = request;
        let (caller, known) = self.holder(caller, &token);
        let call = self.service.begin_certification(&caller, &truncate(&identity, MAX_RECORDED_BYTES)).await?;
        let certified = async {
            known?;
            self.check_identity(&identity)?;
            self.service.authorize_certificate(&*caller.authorizer, &identity)?;
            self.authority.certify(&identity, certificate_signing_request).await
        };
        let certified = certified.await;
        let outcome = match &certified {
            Ok(_) => "issued",
            Err(error) => match error.code {
                Code::PermissionDenied | Code::Unauthenticated => "denied",
                Code::InvalidArgument => "invalid",
                _ => "failed",
            },
        };
        metrics::counter!("mortise_identity_certificates_total", "outcome" => outcome).increment(1);
        let serial = certified.as_ref().map(|certified| certified.serial.clone()).unwrap_or_default();
        let Certified { leaf, intermediates, not_after, .. } = call.end(&serial, certified).await?;
        Ok(CertifyResponse {
            leaf_certificate: leaf,
            intermediate_certificates: intermediates,
            valid_until: Some(not_after.into()),
        })
    }

    /// The caller of a message with this token, and whether the token is known.
    fn holder(&self, mut caller: Caller, token: &[u8]) -> (Caller, Result<(), Error>) {
        let token = token.trim_ascii();
        let Some(access) = self.service.access().filter(|_| !token.is_empty()) else { return (caller, Ok(())) };
        // Secrets are text; other bytes are an unknown one.
        match access.identity_for_secret(std::str::from_utf8(token).unwrap_or("\u{fffd}")) {
            Ok(identity) => {
                caller.authorizer = identity;
                (caller, Ok(()))
            }
            Err(error) => {
                caller.authorizer = unknown_caller();
                (caller, Err(error))
            }
        }
    }
}

#[tonic::async_trait]
impl Identity for IdentityApi {
    async fn certify(&self, request: Request<CertifyRequest>) -> Result<Response<CertifyResponse>, Status> {
        let caller = caller_of(&request)?;
        answer(call_span("identity.Certify"), Box::pin(self.certify(caller, request.into_inner()))).await
    }
}
