//! Update: changes fields of a resource, optionally on a condition.
//!
//! Update reads, compares and writes. The write is conditional on the read version; after a concurrent write it starts
//! again, unless the request names a version. The write passes every hook and check of Write. A write without changes
//! stores nothing: no version, no event.

use std::collections::BTreeMap;

use mortise_query::{Mask, Path, Schema, changed_paths};
use mortise_resource::{
    Code, Diagnostic, EncodedResource, Error,
    authorizer::Verb,
    data::{
        UpdateRequest, UpdateResponse,
        update_request::{Cas, ResponseMask},
    },
    meta::{DELETION_TIMESTAMP, FINALIZERS},
    pb, resource_meta, types,
};

use super::{write::Written, write_mode::WriteMode};
use crate::{
    call::{Call, Caller, Failure, Method, Retry, store_fault::cas_failure, with_outcome},
    core::ids::type_of,
    query::{project, refused, undecodable},
    registry::{Registry, ResourceType},
    rules::{read_checked, server_meta},
    service::ResourceService,
};

/// An update with checked texts.
struct Update {
    incoming: pb::Resource,
    mask: Mask,
    /// Whether the request has no mask: the reserved keys of metadata then stay, as in a blanket write.
    is_whole: bool,
    condition: Option<(pb::Resource, Mask)>,
    allow_missing: bool,
    schema: Schema,
    /// The protection from deletion, if the mask names it; it counts for controllers of the type's plugin.
    blocks: Option<bool>,
}

impl ResourceService {
    /// Changes fields of a resource, or creates it if `allow_missing` is set. With `validate_only` the answer is the
    /// same, and nothing is stored.
    ///
    /// # Errors
    /// Those of Read and Write; `InvalidArgument`: a path, or a condition together with `allow_missing`; `NotFound`;
    /// `Aborted`: the condition does not hold, or the version is not the stored one.
    pub async fn update(&self, caller: &Caller, request: UpdateRequest) -> Result<UpdateResponse, Error> {
        let service = self.clone();
        with_outcome(&self.core, caller, |caller| async move { service.recorded_update(&caller, request).await }).await
    }

    async fn recorded_update(&self, caller: &Caller, request: UpdateRequest) -> Result<UpdateResponse, Error> {
        let mut call = Call::begin(&self.core, caller, Method::Update).await?;
        call.about(request.resource.as_ref().and_then(|resource| resource.id.as_ref()));
        let answer = self.updated(caller, request, &mut call).await;
        call.end(answer).await
    }

    async fn updated(&self, caller: &Caller, request: UpdateRequest, call: &mut Call) -> Result<UpdateResponse, Error> {
        let registry = self.core.types();
        let answered = request.response_mask.clone().unwrap_or_default();
        let validates_only = request.validate_only;
        let (update, kind) = Update::read(&registry, request)?;
        let body = answered.body_mask.as_ref().map(|mask| mask.paths.as_slice()).unwrap_or_default();
        let body = Mask::parse(body, &update.schema).map_err(refused)?;
        let id = update.incoming.id.clone().unwrap_or_default();
        let is_own_controller =
            caller.controller_of.is_some() && caller.controller_of.as_deref() == kind.owner.plugin_name();
        let mut retry = Retry::new(&self.writers, caller, &id, &update.incoming.version);
        loop {
            retry.queue().await?;
            let stored = self.stored_for_update(caller, &update).await?;
            let request = update.write(stored.as_ref())?;
            let blocks = update.blocks.filter(|_| is_own_controller);
            let mode = WriteMode {
                keep_unchanged: true,
                creates: stored.is_none(),
                blocks,
                validates_only,
                has_read: true,
                ..WriteMode::new(Verb::Write)
            };
            match self.write_as(caller, &registry, pb::WriteRequest { resource: Some(request) }, mode).await {
                Ok(Written { resource, mut warnings, before }) => {
                    warnings.extend(update.blocks.filter(|_| !is_own_controller).map(|_| server_meta::ignored_block()));
                    call.about_encoded(&resource);
                    if !validates_only {
                        call.changed(None, &before, resource.generation());
                    }
                    return answer(&kind, &update.schema, &answered, &body, stored, &resource, warnings);
                }
                // A concurrent write came first: the condition may no longer hold, and other fields may differ.
                Err(error) if error.code == Code::Aborted => retry.after(Failure::Conflict(error)).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the stored resource, if the caller may read it; `None` if it is missing and may be.
    async fn stored_for_update(&self, caller: &Caller, update: &Update) -> Result<Option<pb::Resource>, Error> {
        let read = pb::ReadRequest { id: update.incoming.id.clone() };
        let caller = Caller { consistency: mortise_store::Consistency::Consistent, ..caller.clone() };
        match read_checked(&self.core, &caller, read).await {
            Ok(stored) => {
                let mut stored = stored.decode()?;
                resource_meta::complete_server_part(&mut stored);
                Ok(Some(stored))
            }
            Err(error) if error.code == Code::NotFound && update.allow_missing => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Update {
    fn read(registry: &Registry, request: UpdateRequest) -> Result<(Self, std::sync::Arc<ResourceType>), Error> {
        let incoming = request.resource.ok_or_else(|| Error::invalid("resource is required"))?;
        let mut id = incoming.id.clone().ok_or_else(|| Error::invalid("resource.id is required"))?;
        types::check_id("resource.id", &mut id)?;
        let kind = registry.resolve(&type_of(&id))?.clone();
        let schema = Schema::new(Some(kind.schema.message().clone()));
        let paths = request.update_mask.map(|mask| mask.paths).unwrap_or_default();
        let mask = Mask::parse_write(&paths, &schema).map_err(refused)?;
        let condition = request.cas.map(|cas| condition(cas, &schema)).transpose()?;
        if condition.is_some() && request.allow_missing {
            return Err(Error::invalid("cas and allow_missing exclude each other; leave one out"));
        }
        let allow_missing = request.allow_missing;
        let names_block = mask_names_block(&paths, &schema);
        let blocks = names_block.then(|| server_meta::is_blocked(&incoming));
        let mut incoming = pb::Resource { id: Some(id), ..incoming };
        resource_meta::take_version(&mut incoming);
        let is_whole = mask_is_whole(&paths);
        Ok((Self { incoming, mask, is_whole, condition, allow_missing, schema, blocks }, kind))
    }

    /// Returns the write that turns the stored resource into the requested one.
    fn write(&self, stored: Option<&pb::Resource>) -> Result<pb::Resource, Error> {
        let Some(stored) = stored else {
            // A new resource is taken whole, without regard to the mask.
            let mut new = pb::Resource { version: String::new(), ..self.incoming.clone() };
            if let Some(meta) = &mut new.meta {
                meta.resource_version.clear();
            }
            return Ok(new);
        };
        let id = stored.id.clone().unwrap_or_default();
        let failed = |error| undecodable(&id, &error);
        if let Some((expected, mask)) = &self.condition
            && !mask.is_equal(stored, expected).map_err(failed)?
        {
            return Err(Error::new(Code::Aborted, "cas: the resource is not as conditional_state says"));
        }
        if !self.incoming.version.is_empty() && self.incoming.version != stored.version {
            return Err(cas_failure());
        }
        let mut next = self.mask.update(stored, &self.incoming).map_err(failed)?;
        if self.is_whole {
            keep_reserved(&mut next.metadata, &stored.metadata);
        }
        // An empty `meta` keeps nothing; an absent one would keep the stored `meta`.
        next.meta.get_or_insert_default();
        Ok(pb::Resource {
            id: stored.id.clone().map(|id| pb::Id { r#type: self.incoming.id.clone().and_then(|id| id.r#type), ..id }),
            owner: next.owner.or_else(|| stored.owner.clone()),
            version: stored.version.clone(),
            generation: String::new(),
            status: BTreeMap::new(),
            schema_version: 0,
            ..next
        })
    }
}

/// Whether a mask means everything that a client may write.
fn mask_is_whole(paths: &[String]) -> bool {
    paths.is_empty() || paths.iter().any(|path| path == "*")
}

/// Whether a mask names the protection from deletion, in any spelling.
fn mask_names_block(paths: &[String], schema: &Schema) -> bool {
    let name = |path: &String| Path::parse(path, schema).map(|path| path.to_string());
    paths.iter().any(|path| name(path).as_deref() == Ok("meta.lifecycle.block_deletion"))
}

fn condition(cas: Cas, schema: &Schema) -> Result<(pb::Resource, Mask), Error> {
    let expected = cas.conditional_state.ok_or_else(|| Error::invalid("cas.conditional_state is required"))?;
    let paths = cas.field_mask.map(|mask| mask.paths).unwrap_or_default();
    if paths.is_empty() {
        return Err(Error::invalid("cas.field_mask is required: name what is compared, such as meta.resource_version"));
    }
    Ok((expected, Mask::parse(&paths, schema).map_err(refused)?))
}

fn keep_reserved(metadata: &mut BTreeMap<String, String>, stored: &BTreeMap<String, String>) {
    for key in [DELETION_TIMESTAMP, FINALIZERS] {
        if let (false, Some(kept)) = (metadata.contains_key(key), stored.get(key)) {
            metadata.insert(key.to_owned(), kept.clone());
        }
    }
}

fn answer(
    kind: &ResourceType,
    schema: &Schema,
    answered: &ResponseMask,
    body: &Mask,
    stored: Option<pb::Resource>,
    now: &EncodedResource,
    warnings: Vec<Diagnostic>,
) -> Result<UpdateResponse, Error> {
    if answered.skip_entire_response_body {
        return Ok(UpdateResponse { resource: None, warnings });
    }
    let now = now.decode()?;
    if !answered.updated_fields_only {
        return Ok(UpdateResponse { resource: Some(project(body, now)?), warnings });
    }
    let id = now.id.clone().unwrap_or_default();
    let before = stored.unwrap_or_default();
    let paths = changed_paths(&before, &now, schema).map_err(|e| undecodable(&id, &e))?;
    tracing::trace!(kind = %kind.gvk, ?paths, "an update changed");
    // A mask without a path means everything; the id is always present.
    let paths = if paths.is_empty() { vec!["name".to_owned()] } else { paths };
    let mask = Mask::parse(&paths, schema).map_err(refused)?;
    Ok(UpdateResponse { resource: Some(project(&mask, now)?), warnings })
}
