//! The clean-up of partitions and namespaces that are marked for deletion: deletes their resources, then the unit
//! itself.
//!
//! Marking changes a unit's generation, and every write depends on the generation of its units. So a marked unit gets
//! no new resources, and a list of its resources is complete. Resources with finalizers keep the unit until their
//! finalizers are removed. Tombstones stay: the reaper may still need them, and they do not need their place.
//!
//! Passes over [`CONCURRENT_UNITS`] units run at once; the others wait. A unit that is not empty yet takes no place
//! between its passes.
//!
//! All state is in the store: after a crash the watch replays the units, and the work goes on.

use std::{
    collections::{BTreeSet, HashSet},
    panic::{AssertUnwindSafe, resume_unwind},
    sync::Arc,
};

use futures::FutureExt as _;
use mortise_resource::{
    backoff::{Backoff, Waits},
    meta, pb,
    tenancy::{DEFAULT, WILDCARD},
    types::{self, Gvk},
};
use mortise_store::{Consistency, Query, StoreError, TypeKey, WatchEvent};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::JoinSet};

use super::{deletions::Deletions, error::RemovalError, plan::Purpose};
use crate::{
    core::{
        Core,
        durations::{EMPTYING_WAITS, TASK_RESTART_WAIT},
        ids::{query_everywhere, tenancy_of},
    },
    region::{Replicas, ReplicatedType},
    rules::builtin_types::{self, TENANCY_FINALIZER},
};

/// Units with a pass at the same time.
const CONCURRENT_UNITS: usize = 16;

/// The clean-up of units. Cheap to clone.
#[derive(Clone)]
pub(crate) struct TenancyCleanup {
    core: Core,
    deletions: Deletions,
    replicas: Replicas,
}

impl TenancyCleanup {
    pub(crate) fn new(deletions: &Deletions, replicas: &Replicas) -> Self {
        Self { core: deletions.core.clone(), deletions: deletions.clone(), replicas: replicas.clone() }
    }

    /// Runs until the service stops; broken watches are opened again.
    pub(crate) async fn run(self) {
        let stopped = self.core.stopped();
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                () = &mut stopped => return,
                Err(e) = self.drain() => tracing::warn!("emptying tenancy units failed, starting again: {e}"),
            }
            tokio::time::sleep(TASK_RESTART_WAIT).await;
        }
    }

    /// Watches both kinds of units and cleans up the marked ones. Ends only with an error.
    async fn drain(&self) -> Result<std::convert::Infallible, StoreError> {
        let watch = async |gvk: Gvk| self.core.backend.watch_list(&query_everywhere(&gvk.to_pb()), None).await;
        let mut partitions = watch(types::partition()).await?;
        let mut namespaces = watch(types::namespace()).await?;
        let mut leaving = HashSet::new();
        let mut running = JoinSet::new();
        let places = Arc::new(Semaphore::new(CONCURRENT_UNITS));
        loop {
            let event = tokio::select! {
                event = partitions.next() => event?,
                event = namespaces.next() => event?,
                Some(ended) = running.join_next() => {
                    match ended {
                        Ok(uid) => leaving.remove(&uid),
                        // Passes on a panic, which then ends the process.
                        Err(e) => resume_unwind(e.into_panic()),
                    };
                    continue;
                }
            };
            if let WatchEvent::Upsert(unit) = event
                && unit.deletion_mark().is_some()
                && let Some(id) = unit.decode_id()?
                && leaving.insert(id.uid.clone())
            {
                let (cleanup, places) = (self.clone(), places.clone());
                running.spawn(async move {
                    cleanup.empty_unit(&id, &places).await;
                    id.uid
                });
            }
        }
    }

    /// Deletes the resources of a unit, in as many passes as needed, then the unit.
    async fn empty_unit(&self, unit: &pb::Id, places: &Semaphore) {
        let restarted = Mutex::default();
        until_gone(&unit.name, places, || self.try_empty_unit(unit, &restarted)).await;
    }

    /// Whether a marked unit may be emptied: `default` only when the partition around it is marked too.
    async fn may_be_emptied(&self, unit: &pb::Id) -> Result<bool, StoreError> {
        if !builtin_types::is_default(unit) {
            return Ok(true);
        }
        let partition = &tenancy_of(unit).partition;
        // The tenancy of a partition is empty.
        if partition.is_empty() || partition == DEFAULT {
            return Ok(false);
        }
        let around = pb::Id {
            r#type: Some(types::partition().to_pb()),
            tenancy: Some(pb::Tenancy::default()),
            name: partition.clone(),
            uid: String::new(),
        };
        match self.core.backend.read_encoded(Consistency::Consistent, &around).await {
            Ok(around) => Ok(around.deletion_mark().is_some()),
            Err(StoreError::GroupVersionMismatch { stored, .. }) => Ok(stored.deletion_mark().is_some()),
            Err(StoreError::NotFound) => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// Makes one pass over a unit. Returns whether the unit is gone. `restarted` are the types whose replication has
    /// restarted for it.
    async fn try_empty_unit(
        &self,
        id: &pb::Id,
        restarted: &Mutex<BTreeSet<ReplicatedType>>,
    ) -> Result<bool, RemovalError> {
        let unit = match self.core.backend.read(Consistency::Consistent, id).await {
            Ok(unit) => unit,
            Err(StoreError::NotFound) => return Ok(true),
            Err(StoreError::GroupVersionMismatch { stored, .. }) => stored.decode()?,
            Err(e) => return Err(e.into()),
        };
        if !self.may_be_emptied(id).await? {
            return Ok(false);
        }
        let is_partition = id.r#type.as_ref().is_some_and(|t| types::partition().matches(t));
        let tenancy = if is_partition {
            pb::Tenancy { partition: id.name.clone(), namespace: WILDCARD.into() }
        } else {
            pb::Tenancy { partition: tenancy_of(id).partition.clone(), namespace: id.name.clone() }
        };
        let unit_uid = unit.id.as_ref().map(|id| id.uid.clone()).unwrap_or_default();
        let (mut empty, mut failed) = (true, Ok(()));
        for type_key in self.core.backend.types().await? {
            if type_key == TypeKey::from(&types::tombstone().to_pb()) {
                continue;
            }
            let query = Query { type_key, tenancy: tenancy.clone(), name_prefix: String::new() };
            let mut cursor = self.core.backend.scan(&query).await?;
            while let Some(page) = cursor.next().await? {
                empty = false;
                self.replicas.release_replicas(&unit, &page, restarted).await?;
                let ids = page.iter().filter_map(|resource| resource.decode_id().transpose());
                let ids = ids.collect::<Result<Vec<_>, _>>()?;
                // A failed resource does not keep the others.
                failed = failed
                    .and(self.deletions.delete_all_for(ids.into_iter(), Purpose::Empty(&tenancy, &unit_uid)).await);
            }
        }
        failed?;
        if !empty {
            return Ok(false);
        }
        if meta::finalizers(&unit.metadata).iter().any(|name| *name != TENANCY_FINALIZER) {
            return Ok(false);
        }
        let outcome = self.deletions.remove(&unit).await;
        match outcome {
            Ok(()) => Ok(true),
            Err(StoreError::CasFailure { .. } | StoreError::WrongUid) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

/// Makes passes over a unit until it is gone. Repeats a pass that panics: the fault concerns this unit, and the others
/// go on. Each pass takes one of `places`.
async fn until_gone<F>(unit: &str, places: &Semaphore, pass: impl Fn() -> F)
where
    F: Future<Output = Result<bool, RemovalError>>,
{
    let mut waits = Waits::new(Backoff::new(EMPTYING_WAITS.0, EMPTYING_WAITS.1));
    loop {
        let place = places.acquire().await;
        let outcome = AssertUnwindSafe(pass()).catch_unwind().await;
        drop(place);
        match outcome {
            Ok(Ok(true)) => return,
            Ok(Ok(false)) => {}
            Ok(Err(e)) => tracing::warn!(unit, "emptying a tenancy unit failed, trying again: {e}"),
            Err(_) => tracing::error!(unit, "emptying a tenancy unit panicked, trying again; please report it"),
        }
        tokio::time::sleep(waits.next_wait()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pass_that_fails_or_panics_is_made_again() {
        let passes = AtomicUsize::new(0);
        until_gone("unit", &Semaphore::new(1), || async {
            match passes.fetch_add(1, Ordering::Relaxed) {
                0 => panic!("it was told to"),
                1 => Err(StoreError::Closed.into()),
                2 => Ok(false),
                _ => Ok(true),
            }
        })
        .await;
        assert_eq!(passes.into_inner(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_passes_run_at_once_and_a_unit_that_waits_holds_no_place() {
        let (places, [running, most, gone]) = (Semaphore::new(2), [0; 3].map(AtomicUsize::new));
        let stuck = AtomicUsize::new(0);
        let ones = (0..10).map(|_| {
            until_gone("unit", &places, || async {
                most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                running.fetch_sub(1, Ordering::Relaxed);
                gone.fetch_add(1, Ordering::Relaxed);
                Ok(true)
            })
        });
        let never = (0..2).map(|_| {
            until_gone("stuck", &places, || async {
                stuck.fetch_add(1, Ordering::Relaxed);
                Ok(false)
            })
        });
        let (never, all) = (futures::future::join_all(never), futures::future::join_all(ones));
        tokio::select! {
            biased;
            _ = never => panic!("they do not go"),
            all = tokio::time::timeout(Duration::from_secs(60), all) => drop(all.expect("the others have their turns")),
        }
        assert_eq!((most.into_inner(), gone.into_inner()), (2, 10));
        assert!(stuck.into_inner() >= 2, "they were tried first");
    }
}
