//! Write: creates or replaces a resource.
//!
//! The first half ([`crate::rules::admit`]) checks the incoming resource. The second reads the stored one, compares,
//! and commits by compare-and-swap. A blanket write (without a version) hides conflicts by trying again, in the turn of
//! its resource. `mutate` and `authorize` run once, and again if another write has changed the protection from
//! deletion, which `mutate` decides about; `validate`, which sees the stored resource, runs again if that has changed.
//! The commit expects the looked-up place (partition and namespace), owner and targets of new references; if one of
//! them changes in between, all are looked up again.

use std::sync::Arc;

use super::{freshness::Freshness, write_mode::WriteMode};
use crate::{
    call::{
        Call, Caller, Failure, Method, Retry,
        store_fault::{cas_failure, store_fault},
        with_outcome,
    },
    core::ids::{self, tenancy_of},
    deletion::{Purpose, RemovalError},
    planted::{self, Fault},
    references::{WrittenReferences, finalizer, owner_entry, renew_records},
    registry::{Owner, Registry, ResourceType},
    rules::{
        RequestHooks, TenancyUnits, access_rules, admit, builtin_types,
        deletion_rules::{self, with_reserved_metadata},
        is_owner_there, proto_text,
        region::{self, Placement},
        replacement::{check_immutable, check_owner, is_unchanged, not_idempotent},
        resolve_owner, server_meta, tombstone, upgrade,
    },
    service::ResourceService,
};
use mortise_resource::{
    Code, Diagnostic, EncodedResource, Error,
    authorizer::Verb,
    meta::{self, DELETION_TIMESTAMP, FINALIZERS},
    pb,
};
use mortise_store::{Batch, Consistency, Expectation, ExpectedId, Mutation, StoreError};

const STATUS_NOT_WRITABLE: &str = "resource.status can only be set using the WriteStatus endpoint";

/// Further attempts of a write whose place, owner or references change between look-up and commit.
const MAX_LOOKUP_ROUNDS: u32 = 16;

/// A received write, with its caller and its type.
#[derive(Clone, Copy)]
struct ReceivedWrite<'w> {
    caller: &'w Caller,
    registry: &'w Registry,
    kind: &'w Arc<ResourceType>,
    resource: &'w pb::Resource,
    retry: &'w Retry<'w>,
    freshness: &'w Freshness,
    validates_only: bool,
}

impl ReceivedWrite<'_> {
    /// Notes that a commit begins.
    async fn start_commit(&self) {
        self.freshness.note_commit();
        self.caller.start_commit().await;
    }
}

/// The outcome of a write.
#[derive(Debug)]
pub struct Written {
    /// Resource as stored; if the write removed its last finalizer, its last state.
    pub resource: EncodedResource,
    /// Warnings of the plugin.
    pub warnings: Vec<Diagnostic>,
    /// Stored generation before the write; empty for a new resource.
    pub before: String,
}

/// The result of the first half, and the stored version for which it holds.
struct AdmittedResource {
    resource: pb::Resource,
    warnings: Vec<Diagnostic>,
    prior: String,
    /// The protection from deletion that `mutate` saw.
    was_blocked: bool,
    /// The protection from deletion as `mutate` changed it.
    blocks: Option<bool>,
}

impl ResourceService {
    /// Creates or replaces a resource. Data and metadata are replaced whole; a blanket write keeps the two reserved
    /// keys of metadata unless the request has them.
    ///
    /// # Errors
    /// Those of MutateAndValidate; `Aborted` when the version is not the stored one; `FailedPrecondition` when the uid
    /// is not; `InvalidArgument` for the rules of owner, status and deletion; `ResourceExhausted` for a quota or a full
    /// disk.
    pub async fn write(&self, caller: &Caller, request: pb::WriteRequest) -> Result<Written, Error> {
        let service = self.clone();
        let mode = WriteMode::new(Verb::Write);
        with_outcome(&self.core, caller, |caller| async move { service.recorded_write(&caller, request, mode).await })
            .await
    }

    /// Creates a resource.
    ///
    /// # Errors
    /// `Aborted` when it exists; else those of [`Self::write`].
    pub async fn write_new(&self, caller: &Caller, request: pb::WriteRequest) -> Result<Written, Error> {
        let service = self.clone();
        let mode = WriteMode { creates: true, ..WriteMode::new(Verb::Write) };
        with_outcome(&self.core, caller, |caller| async move { service.recorded_write(&caller, request, mode).await })
            .await
    }

    async fn recorded_write(
        &self,
        caller: &Caller,
        request: pb::WriteRequest,
        mode: WriteMode,
    ) -> Result<Written, Error> {
        let mut call = Call::begin(&self.core, caller, Method::Write).await?;
        call.about(request.resource.as_ref().and_then(|resource| resource.id.as_ref()));
        let answer = self.write_as(caller, &self.core.types(), request, mode).await;
        if let Ok(Written { resource, before, .. }) = &answer {
            call.about_encoded(resource);
            call.changed(None, before, resource.generation());
        }
        call.end(answer).await
    }

    /// Writes within a call that already has its snapshot of the registry.
    pub(super) async fn write_as(
        &self,
        caller: &Caller,
        registry: &Registry,
        request: pb::WriteRequest,
        mode: WriteMode,
    ) -> Result<Written, Error> {
        let (incoming, kind) = admit::shape(caller, registry, request.resource)?;
        let mut hooks = RequestHooks::new(kind.clone(), caller);
        let mut admitted = None;
        let mut rounds = 0;
        let mut retry = match &incoming.id {
            Some(id) if !mode.creates => Retry::new(&self.writers, caller, id, &incoming.version),
            _ => Retry::once(),
        };
        let mut freshness = Freshness::begin(&self.core, &kind, mode).await.map_err(|e| unexpected(&e))?;
        loop {
            let write = ReceivedWrite {
                caller,
                registry,
                kind: &kind,
                resource: &incoming,
                retry: &retry,
                freshness: &freshness,
                validates_only: mode.validates_only,
            };
            // Boxed: a future of several KB would be moved with every future that holds it.
            let outcome = Box::pin(self.attempt(write, &mut hooks, mode, &mut admitted)).await;
            let failure = if let Err(AttemptError::Failed(Failure::Final(e))) = &outcome { Some(e.code) } else { None };
            if freshness.is_in_doubt(failure) {
                hooks.release();
                admitted = None;
                freshness.renew(&self.core).await.map_err(|e| unexpected(&e))?;
                continue;
            }
            match outcome {
                Ok(written) => {
                    self.access_updates.settle(&kind).await?;
                    return Ok(written);
                }
                // The update of which the creation is a part tries again.
                Err(AttemptError::Failed(Failure::Conflict(_))) if mode.creates => return Err(cas_failure()),
                Err(AttemptError::Failed(failure)) => {
                    // A holder of an instance waits for nothing.
                    hooks.release();
                    retry.after(failure).await?;
                }
                Err(AttemptError::StaleExpectation) if rounds < MAX_LOOKUP_ROUNDS => rounds += 1,
                Err(AttemptError::StaleExpectation) => {
                    return Err(Error::new(Code::Aborted, "its owner or place keeps changing; try again"));
                }
            }
        }
    }

    async fn attempt(
        &self,
        write: ReceivedWrite<'_>,
        hooks: &mut RequestHooks,
        mode: WriteMode,
        admitted: &mut Option<AdmittedResource>,
    ) -> Result<Written, AttemptError> {
        let ReceivedWrite { registry, kind, resource: incoming, .. } = write;
        let nowhere = pb::Id::default();
        let id = incoming.id.as_ref().unwrap_or(&nowhere);
        let stored = match self.core.backend.read(Consistency::Eventual, id).await {
            Ok(stored) => Some(stored),
            Err(StoreError::NotFound) => None,
            Err(StoreError::GroupVersionMismatch { stored, .. }) => Some(stored.decode().map_err(Error::from)?),
            Err(e) => return Err(unexpected(&e).into()),
        };
        let stored = match stored {
            Some(stored) => Some(upgrade::current(registry, hooks, stored).await?),
            None => None,
        };
        let is_deletion = meta::is_marked(&incoming.metadata)
            || stored.as_ref().is_some_and(|stored| meta::is_marked(&stored.metadata));
        // A deletion depends on sets of resources, which a commit does not compare in full.
        if mode.creates && stored.is_some() || is_deletion && !write.freshness.is_new() {
            return Err(cas_failure().into());
        }
        let version = stored.as_ref().map_or("", |s| s.version.as_str());
        let goes = |stored: &pb::Resource| {
            deletion_rules::belongs_to_deletion(stored, &with_reserved_metadata(incoming, stored, &incoming.metadata))
        };
        if let Err(absent) = kind.check_plugin_present() {
            match &stored {
                Some(stored) if goes(stored) => {}
                Some(stored) => return Err(deletion_rules::explain_finalizers(absent, incoming, stored).into()),
                None => return Err(absent.into()),
            }
        }

        // `mutate` decided about the protection that it saw. If another write has changed that, it decides again.
        let is_blocked = mode.blocks.unwrap_or_else(|| stored.as_ref().is_some_and(server_meta::is_blocked));
        if admitted.as_ref().is_some_and(|known| known.was_blocked != is_blocked) {
            *admitted = None;
        }
        let (resource, units) = match admitted {
            None => {
                let mut resource = incoming.clone();
                server_meta::propose(&mut resource, incoming, stored.as_ref(), mode.blocks);
                let was_blocked = server_meta::is_blocked(&resource);
                let (warnings, units) =
                    admit::admit(&self.core, hooks, mode.verb, kind, &mut resource, stored.as_ref()).await?;
                let blocks = Some(server_meta::is_blocked(&resource)).filter(|blocks| *blocks != was_blocked);
                let prior = version.to_owned();
                *admitted = Some(AdmittedResource { resource: resource.clone(), warnings, prior, was_blocked, blocks });
                (resource, units)
            }
            Some(known) => {
                if known.prior != version {
                    server_meta::propose(&mut known.resource, incoming, stored.as_ref(), known.blocks.or(mode.blocks));
                    if !matches!(kind.owner, Owner::Host) {
                        known.warnings = hooks.validate(&known.resource, stored.as_ref()).await?;
                    }
                    access_rules::check_grant(&self.core, write.caller, kind, &known.resource, stored.as_ref()).await?;
                    version.clone_into(&mut known.prior);
                }
                // An upgrade may have taken an instance; the next step waits for the disk.
                hooks.release();
                (known.resource.clone(), admit::tenancy_units(&self.core, kind, &known.resource).await?)
            }
        };
        if write.retry.must_queue() {
            return Err(AttemptError::Failed(Failure::Conflict(cas_failure())));
        }
        let mut warnings = admitted.as_ref().map(|a| a.warnings.clone()).unwrap_or_default();
        warnings.extend(server_meta::ignored_block_of(incoming, &resource));
        let before = stored.as_ref().map_or_else(String::new, |stored| stored.generation.clone());
        warnings.extend(owner_entry::warnings(registry, &resource, stored.as_ref()));
        let inherited = match &stored {
            Some(stored) => region::inherited(&self.core, registry, kind, stored, units.policy.as_deref()).await,
            None => Ok(String::new()),
        };
        let inherited = inherited.map_err(|e| unexpected(&e))?;
        let stored = match stored {
            None => self.create(write, resource, units).await?,
            Some(stored) => {
                warnings.extend(not_idempotent(hooks, incoming, &resource, &stored));
                let is_unchanged = mode.keep_unchanged && is_unchanged(incoming, &resource, &stored);
                let placement = Placement { policy: units.policy.as_deref(), inherited: &inherited };
                match is_unchanged && !region::computes_other(&self.core, kind, &stored, placement) {
                    true => EncodedResource::encode(&stored).map_err(Error::from)?,
                    false => self.replace(write, resource, stored, units, &inherited).await?,
                }
            }
        };
        Ok(Written { resource: stored, warnings, before })
    }

    async fn create(
        &self,
        write: ReceivedWrite<'_>,
        mut resource: pb::Resource,
        units: TenancyUnits,
    ) -> Result<EncodedResource, AttemptError> {
        let ReceivedWrite { caller, registry, kind, resource: incoming, .. } = write;
        let mut id = resource.id.clone().unwrap_or_default();
        id.uid = ids::ulid();
        if !resource.status.is_empty() {
            return Err(Error::invalid(STATUS_NOT_WRITABLE).into());
        }
        if units.marked {
            let tenancy = proto_text(tenancy_of(&id));
            return Err(Error::invalid(format!("tenancy marked for deletion: {tenancy}")).into());
        }
        if meta::is_marked(&resource.metadata) {
            return Err(Error::invalid("resource.metadata.deletionTimestamp can't be set on resource creation").into());
        }
        let (mut expect, mut orphan) = (units.expect, None);
        if let Some(owner) = &mut resource.owner {
            let is_there = match owner.uid.is_empty() {
                true => {
                    *owner = Box::pin(resolve_owner(&self.core, registry, caller, owner)).await?;
                    true
                }
                false => Box::pin(is_owner_there(&self.core, owner)).await?,
            };
            match is_there {
                true => {
                    expect.push(Expectation { id: ExpectedId::from(&*owner), generation: None, is_unmarked: false })
                }
                false => orphan = Some(tombstone::of_absent(owner)),
            }
        }
        if builtin_types::is_tenancy(kind) {
            meta::add_finalizer(&mut resource.metadata, builtin_types::TENANCY_FINALIZER);
        }
        finalizer::check_finalizers(&resource.metadata)?;
        resource.id = Some(id);
        resource.generation = ids::ulid();
        server_meta::set(kind, &mut resource, incoming.meta.as_deref(), None);
        let inherited = region::inherited(&self.core, registry, kind, &resource, units.policy.as_deref()).await;
        let inherited = inherited.map_err(|e| unexpected(&e))?;
        let placement = Placement { policy: units.policy.as_deref(), inherited: &inherited };
        region::set_computed(&self.core, kind, &mut resource, placement, true)?;
        let mut references = self.references.check_written(registry, caller, kind, &resource, None).await?;
        references.work.extend(orphan);
        self.put(write, resource, expect, references).await
    }

    async fn replace(
        &self,
        write: ReceivedWrite<'_>,
        mut resource: pb::Resource,
        stored: pb::Resource,
        units: TenancyUnits,
        inherited: &str,
    ) -> Result<EncodedResource, AttemptError> {
        let ReceivedWrite { caller, registry, kind, resource: incoming, .. } = write;
        region::check_owner(&self.core, &stored)?;
        // A marked resource gets no defaults: new defaults would count as changes, which are refused, and the resource
        // could never be removed.
        let going = meta::is_marked(&incoming.metadata) || meta::is_marked(&stored.metadata);
        if going && incoming.data == stored.data && !matches!(kind.owner, Owner::Host) {
            resource.data.clone_from(&incoming.data);
            // Without the additions of `mutate`, the metadata is that of a document applied again.
            if meta::equal_except(&incoming.metadata, &stored.metadata, &[DELETION_TIMESTAMP, FINALIZERS]) {
                resource.metadata.clone_from(&incoming.metadata);
            }
        }

        if let Some(id) = &mut resource.id {
            id.uid = stored.id.as_ref().map(|id| id.uid.clone()).unwrap_or_default();
        }
        if incoming.version.is_empty() {
            resource.version.clone_from(&stored.version);
        }
        resource.metadata = with_reserved_metadata(incoming, &stored, &resource.metadata);
        if builtin_types::is_tenancy(kind) {
            meta::add_finalizer(&mut resource.metadata, builtin_types::TENANCY_FINALIZER);
        }
        match finalizer::has_finalizer(&stored.metadata) {
            true => meta::add_finalizer(&mut resource.metadata, finalizer::REFERENCES_FINALIZER),
            false => finalizer::check_finalizers(&resource.metadata)?,
        }
        if resource.version != stored.version {
            return Err(cas_failure().into());
        }
        check_owner(&mut resource, &stored)?;
        if resource.status.is_empty() {
            resource.status.clone_from(&stored.status);
        } else if resource.status != stored.status {
            return Err(Error::invalid(STATUS_NOT_WRITABLE).into());
        }
        deletion_rules::check(&stored, &resource, units.marked)
            .map_err(|refusal| deletion_rules::explain_finalizers(refusal, incoming, &stored))?;
        check_immutable(&self.core, kind, &resource, &stored)?;

        if planted::happens(Fault::StatusLost) {
            resource.status.clear();
        }
        resource.generation =
            if planted::happens(Fault::GenerationKept) { stored.generation.clone() } else { ids::ulid() };
        server_meta::set(kind, &mut resource, incoming.meta.as_deref(), Some(&stored));
        let placement = Placement { policy: units.policy.as_deref(), inherited };
        region::set_computed(&self.core, kind, &mut resource, placement, false)?;
        if meta::is_marked(&stored.metadata)
            && meta::has_finalizers(&stored.metadata)
            && !meta::has_finalizers(&resource.metadata)
        {
            // The last finalizer is gone.
            if write.validates_only {
                return Ok(EncodedResource::encode(&resource).map_err(Error::from)?);
            }
            write.start_commit().await;
            Box::pin(self.deletions.remove_if_unreferenced(registry, &stored, &resource)).await.map_err(
                |e| match e {
                    RemovalError::Store(e) => attempt_error(e, incoming),
                    RemovalError::Refused(error) => error.into(),
                },
            )?;
            return Ok(EncodedResource::encode(&resource).map_err(Error::from)?);
        }
        let references = match meta::is_marked(&stored.metadata) && stored.data == resource.data {
            // The write removes a finalizer, and keeps the references.
            true => {
                resource.references.clone_from(&stored.references);
                renew_records(&self.core, &mut resource);
                WrittenReferences { records: std::mem::take(&mut resource.references), ..WrittenReferences::default() }
            }
            false => self.references.check_written(registry, caller, kind, &resource, Some(&stored)).await?,
        };
        let references = match meta::is_marked(&resource.metadata) && !meta::is_marked(&stored.metadata) {
            true => Box::pin(self.marked_by_write(registry, caller, &stored, references)).await?,
            false => references,
        };
        self.put(write, resource, units.expect, references).await
    }

    /// Marks a resource by a write; refuses it if a referrer blocks the deletion.
    async fn marked_by_write(
        &self,
        registry: &Registry,
        caller: &Caller,
        stored: &pb::Resource,
        mut references: WrittenReferences,
    ) -> Result<WrittenReferences, Error> {
        if self.deletions.is_planned(registry, stored) {
            let plan = self.deletions.plan(registry, EncodedResource::encode(stored)?, Purpose::Delete).await?;
            if plan.is_blocked() {
                return Err(self.deletions.refusal(registry, caller, &plan).await);
            }
            references.referrers = plan.referrers.into_iter().take(1).collect();
        }
        Ok(references)
    }

    async fn put(
        &self,
        write: ReceivedWrite<'_>,
        mut resource: pb::Resource,
        mut expect: Vec<Expectation>,
        references: WrittenReferences,
    ) -> Result<EncodedResource, AttemptError> {
        resource.references = references.records;
        if write.validates_only {
            return Ok(EncodedResource::encode(&resource).map_err(Error::from)?);
        }
        expect.extend(references.expect);
        let mut mutations = vec![Mutation::Put(Box::new(resource))];
        mutations.extend(references.work);
        let batch = Batch { expect, referrers: references.referrers, ..Batch::new(mutations).limited() };
        let batch = batch.held(write.caller.held.clone());
        write.start_commit().await;
        let stored = self.core.backend.commit(batch).await.map_err(|e| {
            write.freshness.note_refusal(&e);
            attempt_error(e, write.resource)
        })?;
        stored.into_iter().flatten().next().ok_or_else(|| unexpected(&StoreError::Closed).into())
    }
}

/// The failure of one attempt.
enum AttemptError {
    /// The caller gets the error, or a blanket write tries again.
    Failed(Failure),
    /// The place, the owner, or a reference has changed since it was looked up.
    StaleExpectation,
}

impl From<Error> for AttemptError {
    fn from(error: Error) -> Self {
        Self::Failed(Failure::Final(error))
    }
}

fn attempt_error(error: StoreError, incoming: &pb::Resource) -> AttemptError {
    let sent_uid = incoming.id.as_ref().is_some_and(|id| !id.uid.is_empty());
    match error {
        StoreError::CasFailure { .. } => AttemptError::Failed(Failure::Conflict(cas_failure())),
        StoreError::WrongUid if sent_uid => Error::new(Code::FailedPrecondition, error.to_string()).into(),
        // Two concurrent creations of one name: the other came first. Without a version this one becomes an update, and
        // a given version is not that of the other one. The uid is the server's own, so the caller gets no error about
        // it.
        StoreError::WrongUid => AttemptError::Failed(Failure::Conflict(cas_failure())),
        StoreError::ExpectationFailed { .. } | StoreError::ReferrersChanged => AttemptError::StaleExpectation,
        StoreError::TooLarge { .. } => Error::invalid(error.to_string()).into(),
        other => unexpected(&other).into(),
    }
}

fn unexpected(error: &StoreError) -> Error {
    store_fault("failed to write resource", error)
}
