//! What a write has to find for the references that it adds, and the work that it leaves for the garbage collector.
//!
//! References that stay as they are, are not looked at again: what they are to may be going, and everything else about
//! the resource has to be writable meanwhile.

use std::time::Duration;

use mortise_resource::{
    Code, Diagnostic, Error, Severity,
    data::{OnDelete, OwnershipCheck, ReferenceRecord},
    pb, types,
};
use mortise_store::{Expectation, ExpectedReferrers, Mutation};
use prost::Message as _;

use super::{
    ResourceKey,
    records::{data_records, is_same, owner_of, records},
};
use crate::{
    ids,
    read::tenancy_of,
    registry::{Registry, ResourceType},
    service::ResourceService,
    store_fault::store_fault,
};

/// What a write has to do with references.
#[derive(Default)]
pub(crate) struct WrittenReferences {
    /// The records to store.
    pub(crate) records: Vec<ReferenceRecord>,
    /// What is referred to anew has to be there.
    pub(crate) expect: Vec<Expectation>,
    /// What refers to a resource that is marked.
    pub(crate) referrers: Vec<ExpectedReferrers>,
    /// Work for the garbage collector, for the same commit.
    pub(crate) work: Vec<Mutation>,
}

impl ResourceService {
    /// Looks at what a resource refers to that is about to be stored in the place of `stored`.
    ///
    /// # Errors
    /// `InvalidArgument`: a reference is none. `FailedPrecondition`: a new one is to a resource that is not there, or that
    /// is going. Faults of the store.
    pub(crate) async fn written_references(
        &self,
        registry: &Registry,
        kind: &ResourceType,
        resource: &pb::Resource,
        stored: Option<&pb::Resource>,
    ) -> Result<WrittenReferences, Error> {
        let records = records(registry, kind, resource, stored)?;
        if records.is_empty() && stored.is_none_or(|stored| stored.references.is_empty()) {
            return Ok(WrittenReferences::default());
        }
        // Most writes have none, and their futures are to stay small.
        Box::pin(self.checked_references(registry, kind, resource, stored, records)).await
    }

    async fn checked_references(
        &self,
        registry: &Registry,
        kind: &ResourceType,
        resource: &pb::Resource,
        stored: Option<&pb::Resource>,
        records: Vec<ReferenceRecord>,
    ) -> Result<WrittenReferences, Error> {
        let mut written = WrittenReferences { records, ..WrittenReferences::default() };
        let own = resource.id.as_ref().map(ResourceKey::from);
        // By its data, since it may have been stored before the type declared them.
        let known = stored.map(|stored| data_records(registry, kind, stored)).transpose().ok().flatten();
        let known = known.unwrap_or_default();
        for record in &written.records {
            let target = ResourceKey::from(record);
            let is_known = known.iter().any(|known| is_same(known, record));
            match record.on_delete() {
                OnDelete::Unspecified | OnDelete::AllowDangling => {}
                _ if is_known || own.as_ref() == Some(&target) => {}
                _ => {
                    self.check_target(&record.field, &target).await?;
                    let id = target.expected();
                    written.expect.push(Expectation { id, generation: None, is_unmarked: true });
                }
            }
        }
        written.work = self.work_left(registry, resource, stored, &written.records).await?;
        Ok(written)
    }

    async fn check_target(&self, field: &str, target: &ResourceKey) -> Result<(), Error> {
        let found = self.at(target).await.map_err(|e| store_fault("failed to resolve a reference", &e))?;
        let why = match found {
            None => "does not exist",
            Some(found) if found.deletion_mark().is_some() => "is being deleted",
            Some(_) => return Ok(()),
        };
        let summary = format!("refers to {target}, which {why}");
        let path = format!("data.{field}");
        let mut error = Error::new(Code::FailedPrecondition, format!("{path} {summary}"));
        let severity = Severity::Error.into();
        error.violations = vec![Diagnostic { severity, path, summary, detail: String::new() }];
        Err(error)
    }

    /// Looks for owner references that may not hold, now or because of this write.
    async fn work_left(
        &self,
        registry: &Registry,
        resource: &pb::Resource,
        stored: Option<&pb::Resource>,
        records: &[ReferenceRecord],
    ) -> Result<Vec<Mutation>, Error> {
        let failed = |e| store_fault("failed to read an owner", &e);
        let mut work = Vec::new();
        let id = resource.id.clone().unwrap_or_default();
        let before = stored.map(|stored| stored.references.as_slice()).unwrap_or_default();
        let owners = resource.meta.iter().flat_map(|meta| &meta.owner_references);
        let mut is_doubtful = false;
        for owner in owners {
            let key = owner_of(registry, owner, tenancy_of(&id));
            let is_owner = |record: &&ReferenceRecord| record.field.is_empty() && ResourceKey::from(*record) == key;
            if before.iter().any(|record| is_owner(&record)) {
                continue;
            }
            is_doubtful |= owner.requires_owner_reference || self.at(&key).await.map_err(failed)?.is_none();
        }
        if is_doubtful {
            work.push(check_of(&id, self.options.owner_grace));
        }
        // What it refers to no more may have asked for that.
        for gone in before.iter().filter(|record| !record.field.is_empty()) {
            let target = ResourceKey::from(gone);
            if records.iter().any(|record| !record.field.is_empty() && ResourceKey::from(record) == target) {
                continue;
            }
            let Some(dependent) = self.at(&target).await.map_err(failed)? else { continue };
            let meta = dependent.decode_meta()?.unwrap_or_default();
            if meta.owner_references.iter().any(|owner| owner.requires_owner_reference) {
                work.push(check_of(&dependent.decode_id()?.unwrap_or_default(), Duration::ZERO));
            }
        }
        Ok(work)
    }
}

/// Asks the garbage collector to look at a resource's owner references after a time.
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
