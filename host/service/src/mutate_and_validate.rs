//! MutateAndValidate: what Write would store, without storing it or looking at what is stored.

use mortise_resource::{Error, pb};

use crate::{admit, caller::Caller, judge::Judge, read::tenancy_of, service::ResourceService};

impl ResourceService {
    /// A dry run of a write's first half: defaults, validation, permission and place. Version, uid, status, owner and
    /// finalizers are not looked at.
    ///
    /// # Errors
    /// Those of the first half of Write.
    pub async fn mutate_and_validate(
        &self,
        caller: &Caller,
        request: pb::MutateAndValidateRequest,
    ) -> Result<pb::MutateAndValidateResponse, Error> {
        let registry = self.types();
        let (mut resource, kind) = admit::shape(&registry, request.resource)?;
        kind.check_present()?;
        let mut judge = Judge::new(kind.clone(), caller);
        let (warnings, place) = self.admit(&mut judge, &kind, &mut resource, None).await?;
        self.check_size(&resource, None)?;
        if place.leaving {
            let id = resource.id.unwrap_or_default();
            let tenancy = tenancy_of(&id);
            return Err(Error::invalid(format!(
                "tenancy marked for deletion: {}/{}",
                tenancy.partition, tenancy.namespace
            )));
        }
        Ok(pb::MutateAndValidateResponse { resource: Some(resource), warnings })
    }
}
