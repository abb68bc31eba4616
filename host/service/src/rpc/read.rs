//! Read: one resource by id.

use mortise_resource::{EncodedResource, Error, pb};

use crate::{
    call::{Call, Caller, Method},
    rules::read_checked,
    service::ResourceService,
};

impl ResourceService {
    /// Reads one resource by id. A caller without permission learns whether the resource exists only if the type's hook
    /// needs it to decide.
    ///
    /// # Errors
    /// `InvalidArgument`: the id, the type, the scope, another GroupVersion. `PermissionDenied`. `NotFound`: the
    /// tenancy unit, the resource, or another uid.
    pub async fn read(&self, caller: &Caller, request: pb::ReadRequest) -> Result<EncodedResource, Error> {
        let mut call = Call::begin(&self.core, caller, Method::Read).await?;
        call.about(request.id.as_ref());
        let answer = match caller.check_at_least(&self.core).await {
            Ok(()) => read_checked(&self.core, caller, request).await,
            Err(error) => Err(error),
        };
        call.end(answer).await
    }
}
