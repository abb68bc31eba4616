//! WriteStatus: replaces one controller's status entry, and nothing else.

use mortise_resource::{EncodedResource, Error, Scope, authorizer::Verb, name, pb, pb::condition::State, types, ulid};
use mortise_store::{Batch, Consistency, Mutation, StoreError};

use super::{freshness::Freshness, write_mode::WriteMode};
use crate::{
    call::{
        Call, Caller, Failure, Method, Retry,
        store_fault::{cas_failure, store_fault},
        with_outcome,
    },
    core::ids::{self, type_of},
    references::renew_records,
    registry::Registry,
    rules::{RequestHooks, admit, region, server_meta},
    service::ResourceService,
};

/// A checked status, on its way into a resource.
#[derive(Clone, Copy)]
struct ReceivedStatus<'w> {
    caller: &'w Caller,
    id: &'w pb::Id,
    version: &'w str,
    key: &'w str,
    status: &'w pb::Status,
    retry: &'w Retry<'w>,
    freshness: &'w Freshness,
}

impl ResourceService {
    /// Replaces one status entry. The version changes, the generation does not. Works on resources that are marked for
    /// deletion too.
    ///
    /// # Errors
    /// `InvalidArgument`: a required field, the id, the type, the place. `NotFound`, also for another uid.
    /// `PermissionDenied`. `FailedPrecondition`: another region owns the resource. `Aborted`: the version is not the
    /// stored one.
    pub async fn write_status(
        &self,
        caller: &Caller,
        request: pb::WriteStatusRequest,
    ) -> Result<EncodedResource, Error> {
        let service = self.clone();
        with_outcome(&self.core, caller, |caller| async move { service.recorded_status(&caller, request).await }).await
    }

    async fn recorded_status(
        &self,
        caller: &Caller,
        request: pb::WriteStatusRequest,
    ) -> Result<EncodedResource, Error> {
        let mut call = Call::begin(&self.core, caller, Method::WriteStatus).await?;
        call.about(request.id.as_ref());
        let answer = self.written_status(caller, request).await;
        if let Ok(stored) = &answer {
            call.about_encoded(stored);
            call.changed(None, stored.generation(), stored.generation());
        }
        call.end(answer).await
    }

    async fn written_status(&self, caller: &Caller, request: pb::WriteStatusRequest) -> Result<EncodedResource, Error> {
        let registry = self.core.types();
        check_required(&request, &registry)?;
        let pb::WriteStatusRequest { id, version, key, status } = request;
        let (mut id, status) = (id.unwrap_or_default(), status.unwrap_or_default());
        if status.updated_at.is_some() {
            return Err(Error::invalid("status.updated_at is automatically set and cannot be provided"));
        }
        if !ulid::is_valid(&status.observed_generation) {
            return Err(Error::invalid("status.observed_generation is not valid"));
        }
        types::check_id("id", &mut id)?;
        check_conditions(&status, &registry)?;
        let kind = registry.resolve(&type_of(&id))?.clone();
        let tenancy = id.tenancy.get_or_insert_default();
        kind.scope.check("resource", &kind.gvk.to_string(), tenancy)?;
        caller.fill(kind.scope, tenancy);
        kind.check_deletable()?;
        kind.check_plugin_present()?;

        let mode = WriteMode::new(Verb::Write);
        let mut freshness = Freshness::begin(&self.core, &kind, mode).await.map_err(failed_read)?;
        let mut hooks = RequestHooks::new(kind, caller);
        let mut retry = Retry::new(&self.writers, caller, &id, &version);
        let mut is_authorized = false;
        loop {
            let write = ReceivedStatus {
                caller,
                id: &id,
                version: &version,
                key: &key,
                status: &status,
                retry: &retry,
                freshness: &freshness,
            };
            let outcome = self.status_attempt(write, &mut hooks, &mut is_authorized).await;
            // The next step waits for others.
            hooks.release();
            let failure = if let Err(Failure::Final(e)) = &outcome { Some(e.code) } else { None };
            if freshness.is_in_doubt(failure) {
                freshness.renew(&self.core).await.map_err(failed_read)?;
                is_authorized = false;
                continue;
            }
            match outcome {
                Ok(resource) => return Ok(resource),
                Err(failure) => retry.after(failure).await?,
            }
        }
    }

    /// Puts the status into the stored resource. `is_authorized` is true once an attempt was: the content on which
    /// authorization depends may change until the commit anyway.
    async fn status_attempt(
        &self,
        write: ReceivedStatus<'_>,
        hooks: &mut RequestHooks,
        is_authorized: &mut bool,
    ) -> Result<EncodedResource, Failure> {
        let ReceivedStatus { caller, id, version, key, status, freshness, .. } = write;
        if !*is_authorized {
            let shell = pb::Resource { id: Some(id.clone()), ..pb::Resource::default() };
            admit::tenancy_units(&self.core, &hooks.kind, &shell).await?;
        }
        let mut stored = self.core.backend.read(Consistency::Eventual, id).await.map_err(failed_read)?;
        hooks.upgrade(&mut stored).await?;
        if !*is_authorized {
            hooks.authorize_write(Verb::Write, &stored, "failed operator:write allowed acl").await?;
            *is_authorized = true;
        }
        hooks.release();
        if write.retry.must_queue() {
            return Err(Failure::Conflict(cas_failure()));
        }
        if !version.is_empty() && version != stored.version {
            return Err(Failure::Conflict(cas_failure()));
        }
        region::check_owner(&self.core, &stored)?;
        let status = pb::Status { updated_at: Some(ids::timestamp()), ..status.clone() };
        stored.status.insert(key.to_owned(), status);
        server_meta::set_touched(&mut stored);
        renew_records(&self.core, &mut stored);
        freshness.note_commit();
        caller.start_commit().await;
        let batch = Batch::single(Mutation::Put(Box::new(stored))).limited().held(caller.held.clone());
        match self.core.backend.commit(batch).await.map(|stored| stored.into_iter().flatten().next()) {
            Ok(Some(resource)) => Ok(resource),
            Ok(None) => Err(store_fault("failed to write resource", &StoreError::Closed).into()),
            Err(e) => {
                freshness.note_refusal(&e);
                Err(match e {
                    // Another incarnation came between read and commit; the next read finds it.
                    StoreError::CasFailure { .. } | StoreError::WrongUid => Failure::Conflict(cas_failure()),
                    StoreError::TooLarge { .. } => Error::invalid(e.to_string()).into(),
                    e => store_fault("failed to write resource", &e).into(),
                })
            }
        }
    }
}

fn failed_read(error: StoreError) -> Error {
    match error {
        StoreError::NotFound => Error::not_found(error.to_string()),
        other => store_fault("failed read", &other),
    }
}

/// Finds the first missing required field, in Consul's order: an empty condition type ends the scan, while of several
/// incomplete references the last is named. Only a reference to a cluster-scoped resource needs no tenancy.
fn check_required(request: &pb::WriteStatusRequest, registry: &Registry) -> Result<(), Error> {
    let required = |field: &str| Err(Error::invalid(format!("{field} is required")));
    let Some(id) = &request.id else { return required("id") };
    for (field, missing) in [
        ("id.type", id.r#type.is_none()),
        ("id.name", id.name.is_empty()),
        ("id.uid", id.uid.is_empty()),
        ("key", request.key.is_empty()),
    ] {
        if missing {
            return required(field);
        }
    }
    let Some(status) = &request.status else { return required("status") };
    if status.observed_generation.is_empty() {
        return required("status.observed_generation");
    }
    let mut incomplete = None;
    for (i, condition) in status.conditions.iter().enumerate() {
        if condition.r#type.is_empty() {
            return required(&format!("status.conditions[{i}].type"));
        }
        if let Some(reference) = &condition.resource {
            let parts = [
                ("type", reference.r#type.is_none()),
                ("tenancy", reference.tenancy.is_none() && scope_of(reference, registry) != Some(Scope::Cluster)),
                ("name", reference.name.is_empty()),
            ];
            if let Some((part, _)) = parts.into_iter().find(|(_, missing)| *missing) {
                incomplete = Some(format!("status.conditions[{i}].resource.{part}"));
            }
        }
    }
    incomplete.map_or(Ok(()), |field| required(&field))
}

/// Checks states and references of conditions. A reference is complete: an empty unit is as wrong as a malformed one,
/// unless the scope of the referenced type lacks the unit. The scope of a type that is not registered is unknown, so
/// any of its units may be empty.
fn check_conditions(status: &pb::Status, registry: &Registry) -> Result<(), Error> {
    for (i, condition) in status.conditions.iter().enumerate() {
        if State::try_from(condition.state).is_err() {
            let (path, state) = (format!("status.conditions[{i}].state"), condition.state);
            let fault = format!("{state} is not a state; use 0 (unknown), 1 (true) or 2 (false)");
            return Err(Error::invalid(format!("{path} invalid: {fault}")).with_violation(path, fault));
        }
        let Some(reference) = &condition.resource else { continue };
        let (needs_partition, needs_namespace) = match scope_of(reference, registry) {
            Some(Scope::Namespace) => (true, true),
            Some(Scope::Partition) => (true, false),
            Some(Scope::Cluster | Scope::Undefined) | None => (false, false),
        };
        let tenancy = reference.tenancy.clone().unwrap_or_default();
        for (field, value, is_needed) in [
            ("name", &reference.name, true),
            ("tenancy.partition", &tenancy.partition, needs_partition),
            ("tenancy.namespace", &tenancy.namespace, needs_namespace),
        ] {
            if (is_needed || !value.is_empty())
                && let Some(fault) = name::fault(value)
            {
                return Err(Error::invalid(format!("status.conditions[{i}].resource.{field} invalid: {fault}")));
            }
        }
    }
    Ok(())
}

/// Returns the scope of the referenced type; `None` if it is not registered.
fn scope_of(reference: &pb::Reference, registry: &Registry) -> Option<Scope> {
    let of = reference.r#type.as_ref()?;
    registry.scope_of(&of.group, &of.kind)
}
