//! Read: one resource by id.

use mortise_resource::{Error, pb, types};
use mortise_store::StoreError;

use crate::{
    caller::Caller,
    judge::{Judge, Reading, type_of},
    service::ResourceService,
};

impl ResourceService {
    /// One resource by id. See the order of checks below; a caller who may not read learns whether the resource exists
    /// only if the type's hook needs to see it.
    ///
    /// # Errors
    /// `InvalidArgument`: the id, the type, the scope, another GroupVersion. `PermissionDenied`. `NotFound`: the
    /// tenancy unit, the resource, or another uid.
    pub async fn read(&self, caller: &Caller, request: pb::ReadRequest) -> Result<pb::ReadResponse, Error> {
        let mut id = request.id.ok_or_else(|| Error::invalid("id is required"))?;
        types::check_id("id", &mut id)?;
        let registry = self.types();
        let kind = registry.resolve(&type_of(&id))?;
        let tenancy = id.tenancy.get_or_insert_default();
        kind.scope.check("resource", &kind.gvk.to_string(), tenancy)?;
        kind.scope.fill(tenancy);

        let mut judge = Judge::new(kind.clone(), caller);
        let reading = judge.read(&id).await?;
        judge.rest();
        if kind.scope != mortise_resource::Scope::Undefined {
            self.place(tenancy_of(&id)).await.map_err(|e| e.for_reading())?;
        }
        let mut resource = self.backend.read(caller.consistency, &id).await.map_err(failed)?;
        judge.upgrade(&mut resource).await?;
        if reading == Reading::Postponed {
            judge.read_with(&resource).await?;
        }
        Ok(pb::ReadResponse { resource: Some(resource) })
    }
}

fn failed(error: StoreError) -> Error {
    match error {
        StoreError::NotFound => Error::not_found(error.to_string()),
        StoreError::GroupVersionMismatch { .. } => Error::invalid(error.to_string()),
        other => Error::internal(format!("failed read: {other}")),
    }
}

/// The tenancy of a checked id.
pub(crate) fn tenancy_of(id: &pb::Id) -> &pb::Tenancy {
    static NOWHERE: pb::Tenancy = pb::Tenancy { partition: String::new(), namespace: String::new() };
    id.tenancy.as_ref().unwrap_or(&NOWHERE)
}
