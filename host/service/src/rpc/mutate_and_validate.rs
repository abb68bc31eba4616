//! MutateAndValidate: the first half of Write, without storing anything and without reading the stored resource.

use mortise_resource::{Error, authorizer::Verb, pb};

use crate::{
    call::{Call, Caller, Method},
    core::ids::tenancy_of,
    rules::{RequestHooks, admit},
    service::ResourceService,
};

impl ResourceService {
    /// Runs the first half of a write: defaults, validation, permission and place. Ignores version, uid, status, owner
    /// and finalizers.
    ///
    /// # Errors
    /// Those of the first half of Write.
    pub async fn mutate_and_validate(
        &self,
        caller: &Caller,
        request: pb::MutateAndValidateRequest,
    ) -> Result<pb::MutateAndValidateResponse, Error> {
        let mut call = Call::begin(&self.core, caller, Method::MutateAndValidate).await?;
        call.about(request.resource.as_ref().and_then(|resource| resource.id.as_ref()));
        let answer = self.mutated(caller, request).await;
        call.end(answer).await
    }

    async fn mutated(
        &self,
        caller: &Caller,
        request: pb::MutateAndValidateRequest,
    ) -> Result<pb::MutateAndValidateResponse, Error> {
        let registry = self.core.types();
        let (mut resource, kind) = admit::shape(caller, &registry, request.resource)?;
        kind.check_plugin_present()?;
        let mut hooks = RequestHooks::new(kind.clone(), caller);
        let (warnings, units) = admit::admit(&self.core, &mut hooks, Verb::Write, &kind, &mut resource, None).await?;
        admit::check_size(&self.core, &resource, None)?;
        units.check_unmarked(resource.id.as_ref().map(tenancy_of).unwrap_or(&pb::Tenancy::default()))?;
        Ok(pb::MutateAndValidateResponse { resource: Some(resource), warnings })
    }
}
