//! Plan, Move and Import (`mortise.v1`): changes in which a type's plugin takes part.

use mortise_resource::{
    Error,
    data::{ImportRequest, ImportResponse, MoveRequest, MoveResponse, PlanRequest, PlanResponse},
    pb,
};

use crate::{
    call::{Call, Caller, Method, Retry, request_id, with_outcome},
    service::ResourceService,
};

impl ResourceService {
    /// Plans a write: the resource that would be stored, the plugin's prediction, and whether the stored resource has
    /// to be replaced. Reading the stored resource requires the caller's permission.
    ///
    /// # Errors
    /// Those of the first half of Write, and of Read; those of Write for a uid, a version or a mark.
    pub async fn plan(&self, caller: &Caller, request: PlanRequest) -> Result<PlanResponse, Error> {
        let mut call = Call::begin(&self.core, caller, Method::Plan).await?;
        call.about(request.resource.as_ref().and_then(|resource| resource.id.as_ref()));
        let answer = self.changes.plan(caller, request).await;
        call.end(answer).await
    }

    /// Moves a resource to another type, or returns the resource that would be stored.
    ///
    /// # Errors
    /// `InvalidArgument`: the id, the types, a refusal by the plugin or the hooks of the new type. `NotFound`: the
    /// resource, or another uid. `AlreadyExists`: the new resource. `FailedPrecondition`: the resource is marked for
    /// deletion. `Aborted`: the version is not the stored one, or other requests keep changing the resource.
    /// `PermissionDenied`.
    pub async fn move_resource(&self, caller: &Caller, request: MoveRequest) -> Result<MoveResponse, Error> {
        let service = self.clone();
        with_outcome(&self.core, caller, |caller| async move { service.recorded_move(&caller, request).await }).await
    }

    async fn recorded_move(&self, caller: &Caller, request: MoveRequest) -> Result<MoveResponse, Error> {
        let mut call = Call::begin(&self.core, caller, Method::Move).await?;
        call.about(request.id.as_ref());
        let answer = self.moved(caller, request).await;
        if let Ok((MoveResponse { resource: Some(new), .. }, before)) = &answer
            && !new.version.is_empty()
        {
            call.changed(new.id.as_ref(), before, &new.generation);
        }
        call.end(answer.map(|(response, _)| response)).await
    }

    async fn moved(&self, caller: &Caller, request: MoveRequest) -> Result<(MoveResponse, String), Error> {
        let (id, _) = request_id::complete(&self.core.types(), caller, request.id.clone())?;
        let mut retry = Retry::new(&self.writers, caller, &id, &request.version);
        loop {
            retry.queue().await?;
            match self.changes.move_resource(caller, request.clone()).await {
                Ok(moved) => return Ok(moved),
                Err(failure) => retry.after(failure).await?,
            }
        }
    }

    /// Imports an external object, or returns the resource that would be stored.
    ///
    /// # Errors
    /// `InvalidArgument`: a type without an import, the external id, a refusal by the plugin or the hooks.
    /// `AlreadyExists`: the resource. `PermissionDenied`. The plugin's faults.
    pub async fn import(&self, caller: &Caller, request: ImportRequest) -> Result<ImportResponse, Error> {
        let service = self.clone();
        with_outcome(&self.core, caller, |caller| async move { service.recorded_import(&caller, request).await }).await
    }

    async fn recorded_import(&self, caller: &Caller, request: ImportRequest) -> Result<ImportResponse, Error> {
        let mut call = Call::begin(&self.core, caller, Method::Import).await?;
        let (r#type, tenancy) = (request.r#type.clone(), request.tenancy.clone());
        call.about(Some(&pb::Id { r#type, tenancy, name: request.name.clone(), uid: String::new() }));
        let answer = self.changes.import(caller, request).await;
        if let Ok(ImportResponse { resource: Some(new), .. }) = &answer
            && !new.version.is_empty()
        {
            call.changed(new.id.as_ref(), "", &new.generation);
        }
        call.end(answer).await
    }
}
