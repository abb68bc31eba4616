//! CanI: whether a caller may make a request, decided as by the request, without its effect; or whether another may,
//! whose token or policies the caller may read.

use std::sync::Arc;

use mortise_acl::GLOBAL_MANAGEMENT;
use mortise_resource::{
    Code, EncodedResource, Error, IdRef,
    authorizer::{Authorizer, Effect, Verb, denial_text},
    pb,
    types::{self, Gvk},
};
use mortise_store::{Consistency, StoreError};

use crate::{
    call::{Call, Caller, Method, request_id, store_fault::store_fault},
    core::ids::type_of,
    rules::{ReadDecision, RequestHooks, read_checked},
    service::ResourceService,
};

/// The caller that a question is about.
#[derive(Debug, Clone, Default)]
pub enum Asked {
    /// The caller of the question.
    #[default]
    Own,
    /// The holder of a token, by accessor.
    Token(String),
    /// A holder of policies.
    Policies(Vec<String>),
}

impl ResourceService {
    /// Checks whether the caller may use a verb on a resource, or, for [`Verb::List`], on the resources of its type in
    /// its place. A hook that needs the resource gets the stored one, or, if none is stored, one with the id alone. The
    /// inner result is the answer.
    ///
    /// # Errors
    /// `PermissionDenied`: the caller may not ask about another one. `NotFound`: the token or a policy is missing.
    /// `ResourceExhausted`: over the rate of reads. `InvalidArgument`: the id, the type, the scope. Those of the hooks.
    pub async fn check_allowed(
        &self,
        caller: &Caller,
        asked: Asked,
        verb: Verb,
        id: Option<pb::Id>,
    ) -> Result<Result<(), Error>, Error> {
        let mut call = Call::begin(&self.core, caller, Method::CanI).await?;
        call.about(id.as_ref());
        let answer = match self.caller_for(caller, asked).await {
            Ok(other) => self.decide(&other, verb, id).await,
            Err(refused) => return call.end(Err(refused)).await,
        };
        match call.end(answer).await {
            Err(error) if error.code != Code::PermissionDenied => Err(error),
            answer => Ok(answer),
        }
    }

    /// Makes the caller that a question is about.
    pub(super) async fn caller_for(&self, caller: &Caller, asked: Asked) -> Result<Caller, Error> {
        let read = async |kind: Gvk, name: &str| {
            let id = pb::Id { name: name.to_owned(), r#type: Some(kind.to_pb()), ..pb::Id::default() };
            let read = read_checked(&self.core, caller, pb::ReadRequest { id: Some(id) }).await;
            read.map(drop).map_err(|error| error.context(&format!("{} {name}", kind.kind.to_lowercase())))
        };
        let Some(access) = self.core.access() else { return Ok(caller.clone()) };
        let identity = match &asked {
            Asked::Own => return Ok(caller.clone()),
            Asked::Token(accessor) => {
                read(types::token(), accessor).await?;
                let identity = access.identity_of_token(accessor);
                identity.ok_or_else(|| Error::not_found(format!("token {accessor} does not exist")))?
            }
            Asked::Policies(policies) => {
                for policy in policies.iter().filter(|policy| *policy != GLOBAL_MANAGEMENT) {
                    read(types::policy(), policy).await?;
                }
                access.identity_of_policies(policies)
            }
        };
        if identity.check_valid().is_err() {
            return Err(Error::new(
                Code::FailedPrecondition,
                "the token has expired; nothing is allowed to its holder",
            ));
        }
        let authorizer: Arc<dyn Authorizer> = identity;
        Ok(Caller { authorizer, ..caller.clone() })
    }

    async fn decide(&self, caller: &Caller, verb: Verb, id: Option<pb::Id>) -> Result<(), Error> {
        let id = id.ok_or_else(|| Error::invalid("id is required"))?;
        let registry = self.core.types();
        if verb == Verb::List {
            let kind = registry.resolve(&type_of(&id))?.clone();
            let mut tenancy = id.tenancy.unwrap_or_default();
            mortise_resource::tenancy::check_query(&tenancy)?;
            caller.fill_own(kind.scope, &mut tenancy);
            return RequestHooks::new(kind, caller).authorize_list(&tenancy).await;
        }
        let (id, kind) = request_id::complete(&registry, caller, Some(id))?;
        if verb == Verb::Escalate {
            return check_escalate(caller, &kind.gvk, &id);
        }
        let mut hooks = RequestHooks::new(kind.clone(), caller);
        if verb == Verb::Read && hooks.authorize_read(&id).await? == ReadDecision::Allowed {
            return Ok(());
        }
        if verb != Verb::Read {
            kind.check_deletable()?;
        }
        hooks.release();
        let stored = match self.core.backend.read_encoded(Consistency::Eventual, &id).await {
            Ok(stored) => stored,
            Err(StoreError::NotFound | StoreError::GroupVersionMismatch { .. }) => {
                EncodedResource::encode(&pb::Resource { id: Some(id), ..pb::Resource::default() })?
            }
            Err(e) => return Err(store_fault("failed read", &e)),
        };
        let resource = hooks.upgraded(stored).await?;
        match verb {
            Verb::Read => hooks.authorize_read_of(&resource).await,
            _ => hooks.authorize_write(verb, &resource.decode()?, "failed write acl").await,
        }
    }
}

/// Checks the verb of writers of tokens and policies that grant more than they hold.
fn check_escalate(caller: &Caller, kind: &Gvk, id: &pb::Id) -> Result<(), Error> {
    if !types::is_access_kind(&kind.group, &kind.kind) {
        return Err(Error::invalid(format!("escalate is a verb for tokens and policies, not for {kind}")));
    }
    let authorizer = &*caller.authorizer;
    authorizer.check_valid()?;
    let id = IdRef::from(id);
    match authorizer.allows_all() || authorizer.effect(Verb::Escalate, id, Some(id.name)) == Effect::Allow {
        true => Ok(()),
        false => Err(Error::denied(denial_text(authorizer.caller(), &format!("{kind}:escalate"), id.name))),
    }
}
