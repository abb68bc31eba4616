//! Certificates for identities: the right to have one, and the record of each. The transport checks the request for a
//! certificate, and makes it.
//!
//! A caller may have a certificate for a name with `identity:write` on it, by a rule by area and name. The caller has
//! to prove itself, so that a certificate is never given to everyone. If client certificates with the name are callers
//! of their own (`acl.certificates`), the caller has to hold what they are granted, as if it wrote a token.

use std::any::Any;

use mortise_acl::Identity;
use mortise_resource::{
    Error,
    authorizer::{Authorizer, denial_text},
    pb,
};

use super::can::Asked;
use crate::{
    call::{Call, Caller, Method},
    service::ResourceService,
};

/// The permission to have a certificate, as in Consul.
const PERMISSION: &str = "identity:write";

/// A call for a certificate. Its record has the identity and the serial number.
pub struct Certification(Call);

impl Certification {
    /// Ends the call with the answer; `serial` is the number of the certificate in it.
    ///
    /// # Errors
    /// Those of the answer. `Unavailable`: the audit log takes no records.
    pub async fn end<T>(mut self, serial: &str, answer: Result<T, Error>) -> Result<T, Error> {
        self.0.issued(serial);
        self.0.end(answer).await
    }
}

impl ResourceService {
    /// Begins a call for a certificate. It counts as a write.
    ///
    /// # Errors
    /// `ResourceExhausted`: over the rate. `Unavailable`: the audit log takes no records.
    pub async fn begin_certification(&self, caller: &Caller, identity: &str) -> Result<Certification, Error> {
        let mut call = Call::begin(&self.core, caller, Method::Certify).await?;
        call.about(Some(&pb::Id { name: identity.to_owned(), ..pb::Id::default() }));
        Ok(Certification(call))
    }

    /// Checks that the caller may have a certificate for an identity.
    ///
    /// # Errors
    /// `PermissionDenied`. `Unauthenticated`: the token is no longer valid.
    pub fn authorize_certificate(&self, caller: &(dyn Authorizer + 'static), identity: &str) -> Result<(), Error> {
        caller.check_valid()?;
        let denied = || denial_text(caller.caller(), PERMISSION, identity);
        if !caller.is_authenticated() && self.core.access().is_some() {
            let what = "certificates are for callers with a token or a client certificate";
            return Err(Error::denied(format!("{}: {what}", denied())));
        }
        if !caller.is_allowed(PERMISSION, identity) {
            return Err(Error::denied(denied()));
        }
        let any: &dyn Any = caller;
        match (self.core.access(), any.downcast_ref::<Identity>()) {
            (Some(access), Some(holder)) => access.check_certificate(holder, identity).map_err(|fault| {
                let what =
                    format!("acl.certificates gives policies to client certificates with this name, and {fault}");
                Error::denied(format!("{}: {what}", denied()))
            }),
            // A caller that is not a user has no policies to compare.
            (Some(_), None) => Err(Error::denied(denied())),
            (None, _) => Ok(()),
        }
    }

    /// Checks whether the caller, or another one that it may ask about, may have a certificate for an identity. The
    /// inner result is the answer.
    ///
    /// # Errors
    /// Those of [`ResourceService::check_allowed`].
    pub async fn check_certificate(
        &self,
        caller: &Caller,
        asked: Asked,
        identity: &str,
    ) -> Result<Result<(), Error>, Error> {
        let mut call = Call::begin(&self.core, caller, Method::CanI).await?;
        call.about(Some(&pb::Id { name: identity.to_owned(), ..pb::Id::default() }));
        let other = match self.caller_for(caller, asked).await {
            Ok(other) => other,
            Err(refused) => return call.end(Err(refused)).await,
        };
        let answer = self.authorize_certificate(&*other.authorizer, identity);
        call.end(Ok(answer)).await
    }
}
