//! The reaper: what a deleted resource owned is deleted too.
//!
//! For each tombstone: once its owner, in that incarnation, is really gone, delete every child; note it in the
//! tombstone's status; some time later do it again, for children that were being written meanwhile; then delete the
//! tombstone. Children with finalizers are marked, and go when those are removed. Children's deletions leave tombstones
//! of their own, so whole trees go.
//!
//! All state is in the store: after a crash the watch replays the tombstones, and the work goes on.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use mortise_resource::{
    pb::{self, condition::State},
    tenancy::WILDCARD,
    types,
};
use mortise_store::{Consistency, Query, StoreError, TypeKey, WatchEvent};
use prost::Message as _;
use tokio::{task::JoinSet, time::Instant};

use crate::{service::ResourceService, stamp};

/// The status entry in which the first pass is noted.
const STATUS_KEY: &str = "consul.io/reaper-controller";
const FIRST_PASS: &str = "FirstPassCompleted";

/// Tombstones worked on at once, and children of each: enough to fill a group commit.
const PARALLEL: usize = 32;

/// Waits after a failure double from the first to the second.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1000));

/// What is to be done about a tombstone next.
enum Next {
    /// Nothing.
    Done,
    /// Look again.
    After(Duration),
}

/// Tombstones in the order in which they are due.
#[derive(Default)]
struct Agenda {
    due: BTreeSet<(Instant, String)>,
    known: HashMap<String, (pb::Id, Instant, u32)>,
}

impl Agenda {
    fn set(&mut self, uid: String, id: pb::Id, at: Instant, failures: u32) {
        if let Some((_, before, _)) = self.known.get(&uid) {
            self.due.remove(&(*before, uid.clone()));
        }
        self.due.insert((at, uid.clone()));
        self.known.insert(uid, (id, at, failures));
    }

    fn take_due(&mut self, now: Instant) -> Option<(String, pb::Id, u32)> {
        let (at, uid) = self.due.first()?.clone();
        if at > now {
            return None;
        }
        self.due.pop_first();
        let (id, _, failures) = self.known.remove(&uid)?;
        Some((uid, id, failures))
    }

    fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }
}

impl ResourceService {
    /// Runs until the service stops; a broken watch is opened again.
    pub(crate) async fn run_reaper(self) {
        let stopped = self.stopped();
        tokio::pin!(stopped);
        loop {
            tokio::select! {
                () = &mut stopped => return,
                Err(e) = self.reap() => tracing::warn!("the reaper starts again: {e}"),
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Ends only with an error.
    async fn reap(&self) -> Result<std::convert::Infallible, StoreError> {
        let everywhere = pb::Tenancy { partition: WILDCARD.into(), namespace: WILDCARD.into() };
        let type_key = TypeKey::from(&types::tombstone().to_pb());
        let query = Query { type_key, tenancy: everywhere, name_prefix: String::new() };
        let mut watch = self.backend.watch_list(&query).await?;
        let mut agenda = Agenda::default();
        let mut running = JoinSet::new();
        loop {
            let now = Instant::now();
            while running.len() < PARALLEL
                && let Some((uid, id, failures)) = agenda.take_due(now)
            {
                let service = self.clone();
                running.spawn(async move {
                    let next = service.work_off(&id).await;
                    (uid, id, failures, next)
                });
            }
            let wake = match agenda.next_due() {
                Some(at) if running.len() < PARALLEL => at,
                _ => now + Duration::from_secs(3600),
            };
            tokio::select! {
                event = watch.next() => if let WatchEvent::Upsert(tombstone) = event? {
                    let id = tombstone.id.clone().unwrap_or_default();
                    let at = Instant::now() + self.wait_of(&tombstone);
                    agenda.set(id.uid.clone(), id, at, 0);
                },
                Some(Ok((uid, id, failures, next))) = running.join_next() => match next {
                    Ok(Next::Done) => {}
                    Ok(Next::After(wait)) => agenda.set(uid, id, Instant::now() + wait, 0),
                    Err(e) => {
                        let wait = (BACKOFF.0 * 2_u32.saturating_pow(failures)).min(BACKOFF.1);
                        tracing::warn!(tombstone = id.name, ?wait, "cascading deletion failed: {e}");
                        agenda.set(uid, id, Instant::now() + wait, (failures + 1).min(20));
                    }
                },
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    /// How long from now until a tombstone has to be looked at.
    fn wait_of(&self, tombstone: &pb::Resource) -> Duration {
        let Some(first) = first_pass(tombstone) else { return Duration::ZERO };
        let now = stamp::timestamp();
        let elapsed = now.seconds.saturating_sub(first.seconds).max(0);
        self.options.second_pass.saturating_sub(Duration::from_secs(elapsed.unsigned_abs()))
    }

    async fn work_off(&self, id: &pb::Id) -> Result<Next, StoreError> {
        let tombstone = match self.backend.read(Consistency::Consistent, id).await {
            Ok(tombstone) => tombstone,
            Err(StoreError::NotFound) => return Ok(Next::Done),
            Err(e) => return Err(e),
        };
        let content = tombstone.data.as_ref().and_then(|any| pb::Tombstone::decode(any.value.as_slice()).ok());
        let Some(owner) = content.and_then(|c| c.owner).filter(|owner| !owner.uid.is_empty()) else {
            tracing::warn!(tombstone = id.name, "names no owner with a uid; nothing to do");
            return Ok(Next::Done);
        };
        // A tombstone is a promise about a resource that is gone; while that lives, its children are safe.
        match self.backend.read(Consistency::Consistent, &owner).await {
            Err(StoreError::NotFound) => {}
            Ok(_) | Err(StoreError::GroupVersionMismatch { .. }) => {
                self.expire(id).await?;
                return Ok(Next::Done);
            }
            Err(e) => return Err(e),
        }
        let wait = self.wait_of(&tombstone);
        if first_pass(&tombstone).is_none() {
            self.expire_children(&owner).await?;
            self.note_first_pass(tombstone).await?;
            return Ok(Next::After(self.options.second_pass));
        }
        if !wait.is_zero() {
            return Ok(Next::After(wait));
        }
        self.expire_children(&owner).await?;
        self.expire(id).await?;
        Ok(Next::Done)
    }

    async fn expire_children(&self, owner: &pb::Id) -> Result<(), StoreError> {
        let children = self.backend.list_by_owner(owner).await?;
        let mut deletions = stream::iter(children.into_iter().filter_map(|child| child.id))
            .map(|child| async move { self.expire(&child).await })
            .buffer_unordered(PARALLEL);
        while let Some(outcome) = deletions.next().await {
            outcome?;
        }
        Ok(())
    }

    async fn note_first_pass(&self, mut tombstone: pb::Resource) -> Result<(), StoreError> {
        let status = pb::Status {
            observed_generation: tombstone.generation.clone(),
            conditions: vec![pb::Condition {
                r#type: FIRST_PASS.into(),
                state: State::True.into(),
                reason: "Success".into(),
                ..pb::Condition::default()
            }],
            updated_at: Some(stamp::timestamp()),
        };
        tombstone.status.insert(STATUS_KEY.to_owned(), status);
        match self.backend.write_cas(tombstone).await {
            Ok(_) => Ok(()),
            // Changed or deleted by somebody else: the next look sees it.
            Err(StoreError::CasFailure { .. } | StoreError::WrongUid) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

/// When the first pass over a tombstone's children was done.
fn first_pass(tombstone: &pb::Resource) -> Option<prost_types::Timestamp> {
    let status = tombstone.status.get(STATUS_KEY)?;
    let done = status.conditions.iter().any(|c| c.r#type == FIRST_PASS && c.state() == State::True);
    status.updated_at.filter(|_| done)
}
