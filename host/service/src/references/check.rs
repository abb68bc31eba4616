//! The check of the references that a write adds, and the garbage collector's work that follows from it.
//!
//! Unchanged references are not checked again: their targets may be marked for deletion, and the rest of the resource
//! must stay writable meanwhile.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use mortise_resource::{
    Code, Error,
    data::{OnDelete, OwnershipCheck, ReferenceRecord},
    pb, types,
};
use mortise_store::{Expectation, ExpectedId, ExpectedReferrers, Mutation};
use prost::Message as _;

use super::{
    error::ReferenceError,
    key::ResourceKey,
    owner_entry,
    owner_references::{BoundOwner, is_elsewhere},
    record_pass::RecordPasses,
    records::{
        Strictness, data_records, in_field, is_owner_record, is_unreadable_owner, owner_of, owner_record, records,
    },
};
use crate::{
    call::{Caller, store_fault::store_fault},
    core::{
        Core,
        ids::{self, tenancy_of},
    },
    registry::{Registry, ResourceType},
    rules::{ReadDecision, is_readable, may_read_name},
};

/// The effect of a write on references.
#[derive(Default)]
pub(crate) struct WrittenReferences {
    /// Records to be stored.
    pub(crate) records: Vec<ReferenceRecord>,
    /// Expectations: the targets of new references exist.
    pub(crate) expect: Vec<Expectation>,
    /// Expected referrers of a marked resource.
    pub(crate) referrers: Vec<ExpectedReferrers>,
    /// Work for the garbage collector, for the same commit.
    pub(crate) work: Vec<Mutation>,
}

/// A write, as the check of references sees it.
#[derive(Clone, Copy)]
struct WriteContext<'w> {
    registry: &'w Registry,
    caller: &'w Caller,
    kind: &'w ResourceType,
    resource: &'w pb::Resource,
    stored: Option<&'w pb::Resource>,
}

/// The check and the records of references. Cheap to clone.
#[derive(Clone)]
pub(crate) struct References {
    pub(super) core: Core,
    /// Passes that record references of resources stored before.
    pub(crate) passes: RecordPasses,
}

impl References {
    pub(crate) fn new(core: Core) -> Self {
        Self { passes: RecordPasses::new(core.clone()), core }
    }

    /// Checks the references of a resource that is about to replace `stored`, by the current declarations of its type.
    ///
    /// # Errors
    /// `InvalidArgument`: an invalid reference. `FailedPrecondition`: the target of a new reference does not exist, is
    /// marked, or may not be read by the caller. Faults of the store.
    pub(crate) async fn check_written(
        &self,
        registry: &Registry,
        caller: &Caller,
        kind: &ResourceType,
        resource: &pb::Resource,
        stored: Option<&pb::Resource>,
    ) -> Result<WrittenReferences, Error> {
        let now = self.core.types();
        let renewed = (!std::ptr::eq(&*now, registry)).then(|| now.get(&kind.gvk.to_pb())).flatten();
        let (registry, kind) = renewed.map_or((registry, kind), |renewed| (&*now, &**renewed));
        // Unchanged data was accepted before.
        let is_new = stored.is_none_or(|stored| stored.data != resource.data);
        let reading = if is_new { Strictness::Strict } else { Strictness::Lenient };
        if resource.meta.as_ref().is_some_and(|meta| !meta.owner_references.is_empty()) {
            Box::pin(owner_entry::check(&self.core, registry, kind, resource, stored)).await?;
        }
        let records = records(registry, kind, resource, stored, reading)?;
        if records.is_empty() && stored.is_none_or(|stored| stored.references.is_empty()) {
            return Ok(WrittenReferences::default());
        }
        // Most writes have no references, and their futures should stay small.
        let written = WriteContext { registry, caller, kind, resource, stored };
        Box::pin(self.checked_references(written, records)).await
    }

    async fn checked_references(
        &self,
        context: WriteContext<'_>,
        records: Vec<ReferenceRecord>,
    ) -> Result<WrittenReferences, Error> {
        let mut written = WrittenReferences { records, ..WrittenReferences::default() };
        let own = context.resource.id.as_ref().map(ResourceKey::from);
        // Read from the data, since the resource may have been stored before its type declared the references.
        let known =
            context.stored.map(|stored| data_records(context.registry, context.kind, stored, Strictness::Lenient));
        let known = known.transpose()?.unwrap_or_default();
        let known: HashSet<_> = known
            .iter()
            .map(|reference| (&*reference.field, reference.on_delete, ResourceKey::from(reference)))
            .collect();
        let mut looked_at = BTreeSet::new();
        self.mark_unreadable_owners(context, &mut written.records).await?;
        for record in &written.records {
            let target = ResourceKey::from(record);
            let is_known = known.contains(&(&*record.field, record.on_delete, target.clone()));
            match record.on_delete() {
                OnDelete::Unspecified | OnDelete::AllowDangling => {}
                _ if is_known || own.as_ref() == Some(&target) || !looked_at.insert(target.clone()) => {}
                _ => {
                    self.check_target(context.registry, context.caller, &record.field, &target).await?;
                    let id = target.expected();
                    written.expect.push(Expectation { id, generation: None, is_unmarked: true });
                }
            }
        }
        written.work = self.work_left(context, &mut written.records, &mut written.expect).await?;
        Ok(written)
    }

    /// Refuses a missing target. A target that the caller may not read gives the same error.
    async fn check_target(
        &self,
        registry: &Registry,
        caller: &Caller,
        field: &str,
        target: &ResourceKey,
    ) -> Result<(), Error> {
        // The permission comes first, so that the time of a refusal says nothing about the target.
        let found = match may_read_name(registry, caller, &target.id()).await? {
            Some(_) => target.stored(&self.core).await.map_err(|e| store_fault("failed to resolve a reference", &e))?,
            None => None,
        };
        let why = match found {
            Some(found) if is_readable(registry, caller, &found).await => match found.deletion_mark() {
                None => return Ok(()),
                Some(_) => "which is being deleted; refer to another, or wait until it is gone and created again",
            },
            _ => "which does not exist; create it first",
        };
        Err(in_field(Code::FailedPrecondition, field, &format!("refers to {target}, {why}")))
    }

    /// Marks the records of owner references to owners that the caller may not read. A reference that was readable for
    /// its writer stays so. Where the permission needs the content of the owner, a missing owner is not readable.
    async fn mark_unreadable_owners(
        &self,
        context: WriteContext<'_>,
        records: &mut [ReferenceRecord],
    ) -> Result<(), Error> {
        if context.caller.authorizer.allows_all() {
            return Ok(());
        }
        let stored = context.stored.map(|stored| stored.references.as_slice()).unwrap_or_default();
        for record in records.iter_mut().filter(|record| is_owner_record(record)) {
            let owner = ResourceKey::from(&*record);
            if owner_record(stored, &owner).is_some_and(|known| !is_unreadable_owner(known)) {
                continue;
            }
            let is_readable = match may_read_name(context.registry, context.caller, &owner.id()).await? {
                None => false,
                Some(ReadDecision::Allowed) => true,
                Some(ReadDecision::NeedsResource) => {
                    match owner.stored(&self.core).await.map_err(|e| store_fault("failed to read an owner", &e))? {
                        None => false,
                        Some(found) => is_readable(context.registry, context.caller, &found).await,
                    }
                }
            };
            let on_delete = if is_readable { OnDelete::Unspecified } else { OnDelete::AllowDangling };
            record.on_delete = on_delete.into();
        }
        Ok(())
    }

    /// Binds new owner references to their owners, which the commit then expects, and finds those that may be invalid,
    /// now or because of this write.
    async fn work_left(
        &self,
        context: WriteContext<'_>,
        records: &mut [ReferenceRecord],
        expect: &mut Vec<Expectation>,
    ) -> Result<Vec<Mutation>, Error> {
        let failed = |e| store_fault("failed to read an owner", &e);
        let mut work = Vec::new();
        let id = context.resource.id.clone().unwrap_or_default();
        let own = ResourceKey::from(&id);
        let before = context.stored.and_then(|stored| stored.meta.as_deref());
        let before = before.map(|meta| meta.owner_references.as_slice()).unwrap_or_default();
        let mut is_doubtful = false;
        for owner in context.resource.meta.iter().flat_map(|meta| &meta.owner_references) {
            if before.contains(owner) {
                continue;
            }
            let key = owner_of(context.registry, owner, tenancy_of(&id));
            let known =
                records.iter_mut().find(|record| is_owner_record(record) && ResourceKey::from(&**record) == key);
            let Some(known) = known.filter(|known| !is_unreadable_owner(known)) else {
                is_doubtful = true;
                continue;
            };
            let found = self.owner_for(context.registry, owner, Some(known), &key, &own).await;
            let found = found.map_err(|e| match e {
                ReferenceError::Store(e) => failed(e),
                ReferenceError::Records(error) => error,
            })?;
            // The owner may stop referring to it at this very moment.
            is_doubtful |= owner.requires_owner_reference;
            match found {
                Some(BoundOwner { uid, region }) => {
                    if key != own {
                        let id = ExpectedId { uid: uid.clone(), ..key.expected() };
                        expect.push(Expectation { id, generation: None, is_unmarked: false });
                    }
                    (known.owner_uid, known.owner_region) = (uid, region);
                }
                None => {
                    is_doubtful |= !is_elsewhere(&self.core, owner, Some(known));
                    // A changed entry has yet to hold.
                    known.owner_uid.clear();
                }
            }
        }
        if is_doubtful {
            work.push(check_of(&id, self.core.options.owner_grace));
        }
        // A target that is no longer referred to may have required the reference.
        let kept: HashSet<_> =
            records.iter().filter(|reference| !reference.field.is_empty()).map(ResourceKey::from).collect();
        let before =
            context.stored.iter().flat_map(|stored| &stored.references).filter(|reference| !reference.field.is_empty());
        let dropped: BTreeSet<_> = before.map(ResourceKey::from).filter(|target| !kept.contains(target)).collect();
        for target in dropped {
            let Some(dependent) = target.stored(&self.core).await.map_err(failed)? else { continue };
            let meta = dependent.decode_meta()?.unwrap_or_default();
            if meta.owner_references.iter().any(|owner| owner.requires_owner_reference) {
                work.push(check_of(&dependent.decode_id()?.unwrap_or_default(), Duration::ZERO));
            }
        }
        Ok(work)
    }
}

/// Returns the mutation that asks the garbage collector to check a resource's owner references after a time.
fn check_of(id: &pb::Id, after: Duration) -> Mutation {
    let mut due = ids::milliseconds();
    due.seconds = due.seconds.saturating_add(i64::try_from(after.as_secs()).unwrap_or(i64::MAX));
    due.nanos = due.nanos.saturating_add(i32::try_from(after.subsec_nanos()).unwrap_or_default());
    due.normalize();
    let content = OwnershipCheck { resource: Some(pb::Id { uid: String::new(), ..id.clone() }), due: Some(due) };
    let uid = ids::ulid();
    Mutation::Put(Box::new(pb::Resource {
        id: Some(pb::Id {
            name: format!("check-{}", uid.to_lowercase()),
            uid,
            r#type: Some(types::ownership_check().to_pb()),
            tenancy: Some(pb::Tenancy::default()),
        }),
        generation: ids::ulid(),
        data: Some(prost_types::Any {
            type_url: "type.googleapis.com/mortise.v1.OwnershipCheck".into(),
            value: content.encode_to_vec(),
        }),
        ..pb::Resource::default()
    }))
}
