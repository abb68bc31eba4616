//! The take-over of replicas from a region that is lost for good.
//!
//! # Contract
//! Adopted replicas become resources of this region, with their uids. Their region field, if it names the lost region,
//! names this one then. A replica that belongs to a third region, by its field, its owner or the policy of its
//! partition, stays as it is, and is named. A replica of a resource that another region gave to the lost one is adopted,
//! too. A removal leaves no tombstone: resources here that a removed replica owns stay. A namespace is held instead.
//! The position in the lost region's changes is dropped. Each change is one commit and one line in the audit log, so an
//! interrupted take-over is continued by another one.
//!
//! # Cost
//! Every resource of the store is read once; a page is in memory at a time.

use futures::{StreamExt as _, stream};
use mortise_resource::{
    Code, EncodedResource, Error,
    data::{AdoptAction, AdoptRequest, AdoptResponse, AdoptedType, HeldBack, HeldBackReason},
    goten::SyncingMeta,
    name, pb,
    tenancy::WILDCARD,
};
use mortise_store::{Batch, Query, StoreError, TypeKey};

use super::{
    decide::Decision,
    held_unit,
    incoming::Deferral,
    record::{Change, Records},
    replicas::Replicas,
};
use crate::{
    call::store_fault::store_fault,
    core::{MAX_CAS_ATTEMPTS, ids},
    registry::{Registry, builtin::RESERVED_GROUPS},
    rules::{
        TenancyUnits, UnitError,
        region::{self, Placement, syncing_of},
        server_meta, shards,
    },
};

/// Replicas that are changed at once.
const CONCURRENT_CHANGES: usize = 16;
/// Most refused replicas that an answer names.
const MAX_REFUSED: usize = 100;

/// The result for a replica.
enum Outcome {
    /// It would be changed.
    Planned,
    Changed(Change),
    Refused(pb::Id, Deferral),
    /// It has another origin by now, is gone, or needs no change.
    Other,
}

impl Replicas {
    /// Adopts or removes the replicas from a region.
    ///
    /// # Errors
    /// `FailedPrecondition`: this server has no region. `InvalidArgument`. `Unavailable`: the audit log takes no
    /// records. Faults of the store.
    pub async fn adopt(&self, request: &AdoptRequest) -> Result<AdoptResponse, Error> {
        let Some(here) = self.core.region() else {
            return Err(Error::new(Code::FailedPrecondition, "the server is in no region (region.name)"));
        };
        if !name::is_valid(&request.from) || request.from == here {
            let text = format!("from: {:?} is not another region; name the lost one", request.from);
            return Err(Error::invalid(text));
        }
        if request.action() == AdoptAction::Unspecified {
            return Err(Error::invalid("action: is missing; ADOPT_ACTION_ADOPT or ADOPT_ACTION_REMOVE"));
        }
        let fault = |e: StoreError| store_fault("failed to adopt replicas", &e);
        let mut answer = AdoptResponse::default();
        for type_key in self.core.backend.types().await.map_err(fault)? {
            let is_host = RESERVED_GROUPS.contains(&type_key.group.as_str());
            if is_host && type_key.kind != mortise_resource::types::namespace().kind {
                continue;
            }
            let mut adopted = AdoptedType::default();
            self.adopt_type(type_key, request, &mut adopted, &mut answer.refused).await?;
            if adopted.r#type.is_some() {
                answer.types.push(adopted);
            }
        }
        if !request.dry_run {
            self.restart_peer(&request.from).await?;
        }
        Ok(answer)
    }

    async fn adopt_type(
        &self,
        type_key: TypeKey,
        request: &AdoptRequest,
        adopted: &mut AdoptedType,
        refused: &mut Vec<HeldBack>,
    ) -> Result<(), Error> {
        let fault = |e: StoreError| store_fault("failed to adopt replicas", &e);
        let tenancy = pb::Tenancy { partition: WILDCARD.to_owned(), namespace: WILDCARD.to_owned() };
        let query = Query { type_key, tenancy, name_prefix: String::new() };
        let mut cursor = self.core.backend.scan(&query).await.map_err(fault)?;
        while let Some(mut page) = cursor.next().await.map_err(fault)? {
            page.retain(|found| {
                let meta = found.decode_meta().ok().flatten();
                syncing_of(meta.as_ref()).is_some_and(|syncing| is_of(syncing, &request.from))
            });
            let Some(first) = page.first() else { continue };
            adopted.r#type = first.decode_id()?.and_then(|id| id.r#type);
            let records = match request.dry_run {
                true => None,
                false => Some(Records::begin(&self.core, format!("adoption from {}", request.from), "Adopt").await?),
            };
            let registry = self.core.types();
            let outcomes: Vec<_> = stream::iter(page)
                .map(|found| self.adopt_one(&registry, found, request))
                .buffer_unordered(CONCURRENT_CHANGES)
                .collect()
                .await;
            let (mut changes, mut failed) = (Vec::new(), Ok(()));
            for outcome in outcomes {
                match outcome {
                    Ok(Outcome::Planned) => adopted.done += 1,
                    Ok(Outcome::Changed(change)) => {
                        adopted.done += 1;
                        changes.push(change);
                    }
                    Ok(Outcome::Refused(id, Deferral { reason, detail })) => {
                        adopted.refused += 1;
                        if refused.len() < MAX_REFUSED {
                            refused.push(HeldBack { id: Some(id), reason: reason.into(), detail });
                        }
                    }
                    Ok(Outcome::Other) => {}
                    Err(e) => failed = failed.and(Err(fault(e))),
                }
            }
            if let Some(records) = records {
                records.end(&self.core, &changes).await;
            }
            failed?;
        }
        Ok(())
    }

    async fn adopt_one(
        &self,
        registry: &Registry,
        found: EncodedResource,
        request: &AdoptRequest,
    ) -> Result<Outcome, StoreError> {
        let mut stored = found.decode()?;
        let id = stored.id.clone().unwrap_or_default();
        let mut attempts = 0;
        loop {
            if !syncing_of(stored.meta.as_deref()).is_some_and(|syncing| is_of(syncing, &request.from)) {
                return Ok(Outcome::Other);
            }
            let decision = match request.action() {
                AdoptAction::Remove => Ok(Decision::removal(&stored, false)),
                _ => self.adopted(registry, &stored, &request.from).await?,
            };
            let Decision { mutations, expect, change, .. } = match decision {
                Ok(decision) => decision,
                Err(deferral) => return Ok(Outcome::Refused(id, deferral)),
            };
            let Some(change) = change else { return Ok(Outcome::Other) };
            if request.dry_run {
                return Ok(Outcome::Planned);
            }
            attempts += 1;
            match self.core.backend.commit(Batch { expect, ..Batch::new(mutations) }).await {
                Ok(_) => return Ok(Outcome::Changed(change)),
                Err(StoreError::CasFailure { .. } | StoreError::WrongUid | StoreError::ExpectationFailed { .. })
                    if attempts < MAX_CAS_ATTEMPTS => {}
                Err(e) => return Err(e),
            }
            let Some(now) = self.core.stored(&id).await? else { return Ok(Outcome::Other) };
            stored = now.decode()?;
        }
    }

    /// Returns the change that makes a replica this region's own.
    async fn adopted(
        &self,
        registry: &Registry,
        stored: &pb::Resource,
        from: &str,
    ) -> Result<Result<Decision, Deferral>, StoreError> {
        let refused = |reason, text: String| Ok(Err(Deferral::new(reason, text)));
        let here = self.core.region().unwrap_or_default();
        let id = stored.id.clone().unwrap_or_default();
        let kind = match registry.resolve(&id.r#type.clone().unwrap_or_default()) {
            Ok(kind) => kind,
            Err(error) => return refused(HeldBackReason::Schema, error.message),
        };
        let units = match TenancyUnits::find(&self.core, ids::tenancy_of(&id)).await {
            Ok(units) => units,
            Err(UnitError::Store(e)) => return Err(e),
            Err(missing) => return refused(HeldBackReason::Place, missing.to_string()),
        };
        let mut next = stored.clone();
        let named = region::named(kind, stored);
        if let Some(data) = next.data.as_mut().filter(|_| named == from) {
            data.value = kind.schema.with_text(&data.value, &kind.regions.field, here);
            next.generation = ids::ulid();
        }
        let policy = units.policy.as_deref();
        let inherited = region::inherited(&self.core, registry, kind, &next, policy).await?;
        // The owner is adopted, too, perhaps after this resource.
        let inherited = if inherited == from { here } else { &inherited };
        let syncing = match region::computed(kind, &next, Placement { policy, inherited }, here) {
            Some(syncing) if syncing.owning_region != here => {
                let owner = syncing.owning_region;
                let remedy = format!("adopt it from {owner:?} if that region is lost, too");
                let text = match (named == owner, inherited == owner) {
                    (true, _) => format!("its region field names region {owner:?}, which has to send it; {remedy}"),
                    (_, true) => format!(
                        "its owner belongs to region {owner:?}, which has to send it; if that region is lost, too, adopt \
                         its owner from {owner:?}, then repeat this"
                    ),
                    _ => format!(
                        "the policy of its partition gives it to region {owner:?}; make {here:?} \
                         default_control_region first"
                    ),
                };
                return refused(HeldBackReason::Policy, text);
            }
            Some(_) if policy.is_some_and(|policy| !policy.enabled_regions.iter().any(|enabled| enabled == here)) => {
                let text = format!("the policy of its partition does not enable region {here:?}; add it first");
                return refused(HeldBackReason::Policy, text);
            }
            syncing => syncing,
        };
        held_unit::release(&mut next);
        server_meta::set_touched(&mut next);
        next.meta.get_or_insert_default().syncing = syncing;
        shards::set(&self.core.options.placement.rings, &mut next);
        Ok(Ok(Decision { expect: units.expect, ..Decision::put(stored, next) }))
    }
}

/// Whether a resource is a replica from a region, or a replica of a resource of that region.
fn is_of(syncing: &SyncingMeta, region: &str) -> bool {
    syncing.copied_from == region || (syncing.owning_region == region && !syncing.copied_from.is_empty())
}

#[cfg(test)]
#[path = "adopt_tests.rs"]
mod tests;
