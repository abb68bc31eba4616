//! The clean-up of partitions and namespaces that are marked for deletion: deletes their resources, then the unit
//! itself.
//!
//! Marking changes a unit's generation, and every write depends on the generation of its units. So a marked unit gets
//! no new resources, and a list of its resources is complete. Resources with finalizers keep the unit until their
//! finalizers are removed. Tombstones stay: the reaper may still need them, and they do not need their place.
//!
//! A namespace of another region goes once it is empty, and stays until then ([`crate::region::held_unit`]).
//!
//! Passes over [`CONCURRENT_UNITS`] units run at once; the others wait. A unit that is not empty yet takes no place
//! between its passes.
//!
//! All state is in the store: after a crash the watch replays the units, and the work goes on.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    panic::{AssertUnwindSafe, resume_unwind},
    sync::Arc,
};

use futures::FutureExt as _;
use mortise_resource::{
    IdRef,
    backoff::{Backoff, Waits},
    meta, pb,
    tenancy::DEFAULT,
    types::{self, Gvk},
};
use mortise_store::{Query, StoreError, TypeKey, WatchEvent};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::JoinSet};

use super::{deletions::Deletions, error::RemovalError, plan::Purpose};
use crate::{
    core::{
        Core,
        durations::{EMPTYING_WAITS, TASK_RESTART_WAIT},
        ids::{self, query_everywhere, tenancy_of},
    },
    region::{Replicas, ReplicatedType, held_unit},
    rules::{
        builtin_types::{self, TENANCY_FINALIZER},
        region, tombstone,
    },
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

/// Units that are being emptied, by uid, each with an event that came meanwhile: a pass may have looked before it.
#[derive(Default)]
struct LeavingUnits(HashMap<String, Option<pb::Id>>);

impl LeavingUnits {
    /// Returns the id if its unit is not being emptied yet; otherwise notes the event.
    fn begin(&mut self, id: pb::Id) -> Option<pb::Id> {
        match self.0.entry(id.uid.clone()) {
            Entry::Vacant(place) => {
                place.insert(None);
                Some(id)
            }
            Entry::Occupied(mut known) => {
                known.insert(Some(id));
                None
            }
        }
    }

    /// Ends the work on a unit. Returns its id if an event came meanwhile: the work begins again.
    fn end(&mut self, uid: &str) -> Option<pb::Id> {
        self.0.remove(uid).flatten().and_then(|id| self.begin(id))
    }
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
        let mut leaving = LeavingUnits::default();
        let mut running = JoinSet::<String>::new();
        let places = Arc::new(Semaphore::new(CONCURRENT_UNITS));
        let begin = |running: &mut JoinSet<String>, id: pb::Id| {
            let (cleanup, places) = (self.clone(), places.clone());
            running.spawn(async move {
                cleanup.empty_unit(&id, &places).await;
                id.uid
            });
        };
        loop {
            let event = tokio::select! {
                event = partitions.next() => event?,
                event = namespaces.next() => event?,
                Some(ended) = running.join_next() => {
                    // Passes on a panic, which then ends the process.
                    let uid = ended.unwrap_or_else(|e| resume_unwind(e.into_panic()));
                    if let Some(id) = leaving.end(&uid) {
                        begin(&mut running, id);
                    }
                    continue;
                }
            };
            if let WatchEvent::Upsert(unit) = event
                && (unit.deletion_mark().is_some() || (self.core.region().is_some() && held_unit::is_held(&unit)))
                && let Some(id) = unit.decode_id()?
                && let Some(id) = leaving.begin(id)
            {
                begin(&mut running, id);
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
        let around = self.core.stored(&around).await?;
        Ok(around.is_none_or(|around| around.deletion_mark().is_some()))
    }

    /// Makes one pass over a unit. Returns whether the unit is gone. `restarted` are the types whose replication has
    /// restarted for it.
    async fn try_empty_unit(
        &self,
        id: &pb::Id,
        restarted: &Mutex<BTreeSet<ReplicatedType>>,
    ) -> Result<bool, RemovalError> {
        let Some(unit) = self.core.stored(id).await? else { return Ok(true) };
        let unit = unit.decode()?;
        if !self.may_be_emptied(id).await? {
            return Ok(false);
        }
        let is_partition = id.r#type.as_ref().is_some_and(|t| types::partition().matches(t));
        let tenancy = ids::within_unit(IdRef::from(id));
        if !is_partition && region::is_replica(&unit) && !self.replicas.is_around_marked(&unit).await? {
            return self.try_release(unit, &tenancy).await;
        }
        let unit_uid = ids::uid_of(&unit).to_owned();
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
        let outcome = self.deletions.remove(&unit, None).await;
        match outcome {
            Ok(()) => Ok(true),
            Err(StoreError::CasFailure { .. } | StoreError::WrongUid) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

impl TenancyCleanup {
    /// Removes a namespace of another region if nothing is in it, and holds it otherwise. Returns whether it is gone.
    ///
    /// It is marked before the look that decides, so that no resource comes in between.
    async fn try_release(&self, unit: pb::Resource, tenancy: &pb::Tenancy) -> Result<bool, RemovalError> {
        let is_held = held_unit::reason_of(&unit).is_some();
        if !is_held && !meta::is_marked(&unit.metadata) {
            // Its owner has it again.
            return Ok(true);
        }
        let is_deleted = !is_held || held_unit::is_deleted(&unit);
        let mut unit = unit;
        if !self.is_used(tenancy).await? {
            if !meta::is_marked(&unit.metadata) {
                tombstone::mark(&mut unit);
                unit.generation = ids::ulid();
                unit = match self.core.backend.write_cas(unit).await {
                    Ok(marked) => marked,
                    Err(StoreError::CasFailure { .. } | StoreError::WrongUid) => return Ok(false),
                    Err(e) => return Err(e.into()),
                };
            }
            if !self.is_used(tenancy).await? {
                let id = unit.id.clone().unwrap_or_default();
                let removed = match is_deleted {
                    true => self.deletions.remove(&unit, None).await,
                    false => self.core.backend.delete_cas(&id, &unit.version).await,
                };
                return match removed {
                    Ok(()) => Ok(true),
                    Err(StoreError::CasFailure { .. } | StoreError::WrongUid) => Ok(false),
                    Err(e) => Err(e.into()),
                };
            }
        }
        match held_unit::hold(&unit, is_deleted) {
            Some(held) => match self.core.backend.write_cas(held).await {
                Ok(_) | Err(StoreError::CasFailure { .. } | StoreError::WrongUid) => Ok(false),
                Err(e) => Err(e.into()),
            },
            None => Ok(false),
        }
    }

    /// Whether a resource is in a namespace. Tombstones do not need their place.
    async fn is_used(&self, tenancy: &pb::Tenancy) -> Result<bool, StoreError> {
        for type_key in self.core.backend.types().await? {
            if type_key == TypeKey::from(&types::tombstone().to_pb()) {
                continue;
            }
            let query = Query { type_key, tenancy: tenancy.clone(), name_prefix: String::new() };
            if self.core.backend.scan(&query).await?.next().await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
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

    #[test]
    fn an_event_during_a_pass_is_not_lost() {
        let id = pb::Id { uid: "1".into(), ..pb::Id::default() };
        let mut leaving = LeavingUnits::default();
        assert!(leaving.begin(id.clone()).is_some());
        assert_eq!((leaving.begin(id.clone()), leaving.begin(id.clone())), (None, None), "it is being emptied");
        assert!(leaving.end("1").is_some(), "the pass may have looked before the event");
        assert_eq!(leaving.begin(id.clone()), None, "it is being emptied again");
        assert!(leaving.end("1").is_some());
        assert_eq!(leaving.end("1"), None);
        assert!(leaving.begin(id).is_some(), "another event begins another pass");
    }

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
