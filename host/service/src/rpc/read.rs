//! Read: one resource by id.

use mortise_resource::{EncodedResource, Error, pb};
use mortise_store::StoreError;

use crate::{
    call::{audit::Method, caller::Caller, request_id, store_fault::store_fault},
    rules::hooks::{ReadDecision, RequestHooks},
    service::ResourceService,
};

impl ResourceService {
    /// Reads one resource by id. A caller who may not read it learns whether it exists only if the type's hook needs
    /// the resource to decide.
    ///
    /// # Errors
    /// `InvalidArgument`: the id, the type, the scope, another GroupVersion. `PermissionDenied`. `NotFound`: the
    /// tenancy unit, the resource, or another uid.
    pub async fn read(&self, caller: &Caller, request: pb::ReadRequest) -> Result<pb::ReadResponse, Error> {
        let resource = self.read_encoded(caller, request).await?.decode()?;
        Ok(pb::ReadResponse { resource: Some(resource) })
    }

    /// Reads as [`ResourceService::read`], for who passes the resource on.
    ///
    /// # Errors
    /// As there.
    pub async fn read_encoded(&self, caller: &Caller, request: pb::ReadRequest) -> Result<EncodedResource, Error> {
        let mut call = self.begin(caller, Method::Read).await?;
        call.about(request.id.as_ref());
        let answer = self.read_checked(caller, request).await;
        call.end(answer).await
    }

    /// [`ResourceService::read_encoded`] within a call that was begun.
    pub(crate) async fn read_checked(
        &self,
        caller: &Caller,
        request: pb::ReadRequest,
    ) -> Result<EncodedResource, Error> {
        let registry = self.types();
        let (id, kind) = request_id::complete(&registry, caller, request.id)?;

        let mut hooks = RequestHooks::new(kind.clone(), caller);
        let reading = hooks.authorize_read(&id).await?;
        hooks.release();
        if kind.scope != mortise_resource::Scope::Undefined {
            self.place(tenancy_of(&id)).await.map_err(|e| e.for_reading())?;
        }
        let stored = self.backend.read_encoded(caller.consistency, &id).await.map_err(failed)?;
        let resource = hooks.upgraded(stored).await?;
        if reading == ReadDecision::NeedsResource {
            hooks.authorize_read_of(&resource).await?;
        }
        Ok(resource)
    }
}

fn failed(error: StoreError) -> Error {
    match error {
        StoreError::NotFound => Error::not_found(error.to_string()),
        StoreError::GroupVersionMismatch { .. } => Error::invalid(error.to_string()),
        other => store_fault("failed read", &other),
    }
}

/// The tenancy of a checked id.
pub(crate) fn tenancy_of(id: &pb::Id) -> &pb::Tenancy {
    static NOWHERE: pb::Tenancy = pb::Tenancy { partition: String::new(), namespace: String::new() };
    id.tenancy.as_ref().unwrap_or(&NOWHERE)
}
