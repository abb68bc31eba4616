//! Update by a computation: changes a resource to what a function makes of the stored one.
//!
//! # Contract
//! The write is conditional on the version that the function saw. After a concurrent write, the function is called
//! again with the resource as it is then, so it also judges conditions. The write passes every hook and check of
//! Write. A write without changes stores nothing.
//!
//! # Limits
//! Attempts are bounded and queue as those of Update.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::BoxFuture;
use mortise_resource::{Code, Error, authorizer::Verb, pb, resource_meta, types};
use mortise_store::Consistency;

use super::{write::Written, write_mode::WriteMode};
use crate::{
    call::{Call, Caller, Failure, Method, Retry, with_outcome},
    rules::read_checked,
    service::ResourceService,
};

/// Makes the next state of a resource from the stored one. Of the result, data, metadata, owner and meta count.
pub type Computation =
    Arc<dyn Fn(pb::Resource) -> BoxFuture<'static, Result<pb::Resource, Error>> + Send + Sync + 'static>;

impl ResourceService {
    /// Changes a resource to the result of a computation.
    ///
    /// # Errors
    /// Those of Read and Write, and those of the computation; `Aborted`: other writers came first each time.
    pub async fn update_with(&self, caller: &Caller, id: pb::Id, compute: Computation) -> Result<Written, Error> {
        let service = self.clone();
        with_outcome(&self.core, caller, |caller| async move {
            let mut call = Call::begin(&service.core, &caller, Method::Update).await?;
            call.about(Some(&id));
            let answer = service.updated_with(&caller, id, &compute).await;
            if let Ok(Written { resource, before, .. }) = &answer {
                call.about_encoded(resource);
                call.changed(None, before, resource.generation());
            }
            call.end(answer).await
        })
        .await
    }

    async fn updated_with(&self, caller: &Caller, mut id: pb::Id, compute: &Computation) -> Result<Written, Error> {
        let registry = self.core.types();
        types::check_id("resource.id", &mut id)?;
        let mut retry = Retry::new(&self.writers, caller, &id, "");
        loop {
            retry.queue().await?;
            let reader = Caller { consistency: Consistency::Consistent, ..caller.clone() };
            let mut stored =
                read_checked(&self.core, &reader, pb::ReadRequest { id: Some(id.clone()) }).await?.decode()?;
            resource_meta::complete_server_part(&mut stored);
            let (stored_id, version) = (stored.id.clone(), stored.version.clone());
            let mut next = compute(stored).await?;
            // An empty `meta` keeps nothing; an absent one would keep the stored `meta`.
            next.meta.get_or_insert_default();
            let next = pb::Resource {
                id: stored_id.map(|stored| pb::Id { r#type: id.r#type.clone(), ..stored }),
                version,
                generation: String::new(),
                status: BTreeMap::new(),
                schema_version: 0,
                ..next
            };
            let mode = WriteMode { keep_unchanged: true, has_read: true, ..WriteMode::new(Verb::Write) };
            match self.write_as(caller, &registry, pb::WriteRequest { resource: Some(next) }, mode).await {
                // A concurrent write came first: the computation may have another result.
                Err(error) if error.code == Code::Aborted => retry.after(Failure::Conflict(error)).await?,
                written => return written,
            }
        }
    }
}
