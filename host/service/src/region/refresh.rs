//! Updates the regions of resources (`meta.syncing`) after a change of their partition's policy or of the types, and at
//! the start.
//!
//! A pass reads every resource of the partition, and writes those with another region or other regions by now.
//! Up-to-date resources are not written, so an interrupted pass starts again from the beginning. Passes run one after
//! another. Each waits after a page for as long as the page took, up to a second, so that it has about half of one
//! thread.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    time::Instant,
};

use futures::{StreamExt as _, stream};
use mortise_resource::{
    EncodedResource,
    goten::{MultiRegionPolicy, SyncingMeta},
    pb,
    tenancy::WILDCARD,
    types,
};
use mortise_store::{Batch, Consistency, Mutation, Query, StoreError, TypeKey, WatchEvent};

use super::replicas::Replicas;
use crate::{
    core::{
        MAX_CAS_ATTEMPTS,
        durations::{MAX_REFRESH_WAIT, TASK_RESTART_WAIT, TYPE_CHECK_INTERVAL},
        ids::tenancy_of,
    },
    references::renew_records,
    registry::{Registry, ResourceType},
    rules::{
        TenancyUnits, UnitError,
        region::{self, Placement},
        region_policy, server_meta,
    },
};

/// Resources that are written at once.
const CONCURRENT_WRITES: usize = 16;

impl Replicas {
    /// Follows the policies until the service stops. Does nothing on a server without a region.
    pub(crate) async fn run_refresh(self) {
        if self.core.region().is_none() {
            return;
        }
        let stopped = self.core.stopped();
        tokio::pin!(stopped);
        let (mut known, mut due) = (BTreeMap::new(), BTreeSet::new());
        loop {
            tokio::select! {
                () = &mut stopped => return,
                Err(e) = self.follow_policies(&mut known, &mut due) => {
                    tracing::warn!("updating the regions of resources failed, starting again: {e}");
                }
            }
            tokio::time::sleep(TASK_RESTART_WAIT).await;
        }
    }

    /// Makes a pass over each partition with an unknown policy, and over the due ones. Ends only with an error. A
    /// partition without a policy gets a pass, too, since it may have had one.
    async fn follow_policies(
        &self,
        known: &mut BTreeMap<String, Option<MultiRegionPolicy>>,
        due: &mut BTreeSet<String>,
    ) -> Result<Infallible, StoreError> {
        let query = Query {
            type_key: TypeKey::from(&types::partition().to_pb()),
            tenancy: pb::Tenancy::default(),
            name_prefix: String::new(),
        };
        let mut partitions = self.core.backend.watch_list(&query, None).await?;
        let mut types = self.core.types();
        loop {
            let event = match due.is_empty() {
                true => tokio::select! {
                    event = partitions.next() => Some(event?),
                    () = tokio::time::sleep(TYPE_CHECK_INTERVAL) => None,
                },
                false => partitions.ready()?,
            };
            // The region fields of types count, too, and types may be registered late.
            let now = self.core.types();
            if !std::sync::Arc::ptr_eq(&types, &now) {
                types = now;
                due.extend(known.keys().cloned());
            }
            match event {
                Some(WatchEvent::Upsert(partition)) => {
                    let (name, policy) = (partition.name().to_owned(), region_policy::of_partition(&partition));
                    if known.get(&name) != Some(&policy) {
                        due.insert(name.clone());
                        known.insert(name, policy);
                    }
                }
                Some(WatchEvent::Delete(partition)) => {
                    known.remove(partition.name());
                    due.remove(partition.name());
                }
                Some(_) => {}
                None => {
                    if let Some(name) = due.pop_first()
                        && let Err(e) = self.refresh_partition(&name).await
                    {
                        due.insert(name);
                        return Err(e);
                    }
                }
            }
        }
    }

    /// Makes a pass over a partition.
    async fn refresh_partition(&self, name: &str) -> Result<(), StoreError> {
        let (begun, mut written) = (Instant::now(), 0_usize);
        for type_key in self.core.backend.types().await? {
            let tenancy = pb::Tenancy { partition: name.to_owned(), namespace: WILDCARD.to_owned() };
            let query = Query { type_key, tenancy, name_prefix: String::new() };
            let mut cursor = self.core.backend.scan(&query).await?;
            while let Some(page) = cursor.next().await? {
                let page_begun = Instant::now();
                let registry = self.core.types();
                let refreshed = stream::iter(page)
                    .map(|resource| self.refresh(&registry, resource))
                    .buffer_unordered(CONCURRENT_WRITES)
                    .fold(Ok(0), async |sum, refreshed| Ok::<_, StoreError>(sum? + usize::from(refreshed?)));
                written += refreshed.await?;
                tokio::time::sleep(page_begun.elapsed().min(MAX_REFRESH_WAIT)).await;
            }
        }
        metrics::counter!("mortise_region_refreshed_total").increment(written as u64);
        tracing::info!(
            partition = name,
            written,
            took_ms = begun.elapsed().as_millis() as u64,
            "regions are up to date"
        );
        Ok(())
    }

    /// Updates the regions of a resource. Returns whether it was written. A resource that cannot be decoded stays as it
    /// is.
    async fn refresh(&self, registry: &Registry, found: EncodedResource) -> Result<bool, StoreError> {
        let Ok(mut stored) = found.decode() else {
            tracing::warn!(name = found.name(), "a resource cannot be decoded; its regions stay as they are");
            return Ok(false);
        };
        let id = stored.id.clone().unwrap_or_default();
        let Some(kind) = id.r#type.as_ref().and_then(|wanted| registry.resolve(wanted).ok()) else { return Ok(false) };
        for _ in 0..MAX_CAS_ATTEMPTS {
            let units = match TenancyUnits::find(&self.core, tenancy_of(&id)).await {
                Ok(units) => units,
                // The resource is deleted together with its unit.
                Err(UnitError::Missing { .. }) => return Ok(false),
                Err(UnitError::Store(e)) => return Err(e),
            };
            let policy = units.policy.as_deref();
            let inherited = region::inherited(&self.core, registry, kind, &stored, policy).await?;
            let placement = Placement { policy, inherited: &inherited };
            let Some(next) = self.refreshed(kind, &stored, placement) else { return Ok(false) };
            server_meta::set_touched(&mut stored);
            stored.meta.get_or_insert_default().syncing = next;
            renew_records(&self.core, &mut stored);
            let batch = Batch { expect: units.expect, ..Batch::single(Mutation::Put(Box::new(stored))) };
            match self.core.backend.commit(batch).await {
                Ok(_) => return Ok(true),
                Err(StoreError::CasFailure { .. } | StoreError::WrongUid | StoreError::ExpectationFailed { .. }) => {}
                Err(e) => return Err(e),
            }
            stored = match self
                .core
                .backend
                .read(Consistency::Consistent, &pb::Id { uid: String::new(), ..id.clone() })
                .await
            {
                Ok(stored) => stored,
                Err(StoreError::NotFound | StoreError::GroupVersionMismatch { .. }) => return Ok(false),
                Err(e) => return Err(e),
            };
        }
        Ok(false)
    }

    /// Returns the new `meta.syncing` of a stored resource; `None` if it is up to date.
    ///
    /// A replica keeps its owner's value, until the policy gives it to this region.
    fn refreshed(
        &self,
        kind: &ResourceType,
        stored: &pb::Resource,
        placement: Placement<'_>,
    ) -> Option<Option<SyncingMeta>> {
        let here = self.core.region()?;
        let next = region::syncing(kind, stored, placement, here, false);
        let is_mine = next.as_ref().is_some_and(|next| next.owning_region == here);
        if region::is_replica(stored) && !is_mine {
            return None;
        }
        (next.as_ref() != region::syncing_of(stored.meta.as_deref())).then_some(next)
    }
}
