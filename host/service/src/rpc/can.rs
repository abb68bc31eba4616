//! CanI: whether a caller may make a request, decided as by the request, without its effect.

use mortise_resource::{EncodedResource, Error, authorizer::Verb, pb};
use mortise_store::{Consistency, StoreError};

use crate::{
    call::{Call, Caller, Method, request_id, store_fault::store_fault},
    core::ids::type_of,
    rules::{ReadDecision, RequestHooks},
    service::ResourceService,
};

impl ResourceService {
    /// Checks whether the caller may use a verb on a resource, or, for [`Verb::List`], on the resources of its type in
    /// its place. A hook that needs the resource gets the stored one, or, if none is stored, one with the id alone.
    ///
    /// # Errors
    /// `PermissionDenied`: the caller may not. `ResourceExhausted`: over the rate of reads. `InvalidArgument`: the id,
    /// the type, the scope. Those of the hooks.
    pub async fn check_allowed(&self, caller: &Caller, verb: Verb, id: Option<pb::Id>) -> Result<(), Error> {
        let mut call = Call::begin(&self.core, caller, Method::CanI).await?;
        call.about(id.as_ref());
        let answer = self.decide(caller, verb, id).await;
        call.end(answer).await
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
