//! A watch of one type: applies its messages and retries deferred resources. docs/query.md (Watches) has the messages
//! and both kinds of reset.

use std::{collections::HashSet, sync::Arc, time::Duration};

use mortise_resource::{
    backoff::{Backoff, Waits},
    data::{BatchGetRequest, BatchGetResponse, ResourceChange, WatchResourcesResponse, resource_change::ChangeType},
    pb,
};
use mortise_service::{ReplicatedChange, ReplicationProgress, may_be_in, uid_number};
use tokio::time::{Instant, timeout};

use crate::{
    changeset::{Changeset, DepartedResource},
    error::FollowError,
    follower::{ANSWER_TIMEOUT, Follower},
    link::PeerCalls,
    trust::StopReason,
};

/// First and longest wait before a retry of deferred resources.
const RETRY_WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Most whole resources in one request to the peer.
const MAX_WHOLE_RESOURCES: usize = 10;
/// Most resources in one request about their presence.
const MAX_PRESENCE_IDS: usize = 500;
/// Shortest time between two snapshots when more resources are deferred than can be listed.
const MIN_SNAPSHOT_INTERVAL: Duration = Duration::from_secs(120);

/// Most uids of a snapshot.
const MAX_SNAPSHOT_UIDS: usize = 4_000_000;

/// A running snapshot.
#[derive(Default)]
struct Snapshot {
    /// The uids of its resources.
    uids: HashSet<u128>,
    /// Replicas of the peer here before it; `None` until it changes something.
    held: Option<usize>,
    /// Replicas that it has replaced by other incarnations.
    replaced: usize,
}

/// The peer's answer about a list of resources.
#[derive(Default)]
struct Answer {
    resources: Vec<pb::Resource>,
    /// Resources that the peer could not report on, such as one stored in another version of the type; they count as
    /// present.
    unsure: Vec<pb::Id>,
}

/// A watch that is open.
pub(crate) struct Session<'a> {
    follower: &'a Follower,
    connection: Arc<dyn PeerCalls>,
    resource_type: pb::Type,
    progress: ReplicationProgress,
    changes: Changeset,
    snapshot: Option<Snapshot>,
    begun: Instant,
    retry_at: Instant,
    waits: Waits,
}

impl<'a> Session<'a> {
    pub(crate) fn new(
        follower: &'a Follower,
        connection: Arc<dyn PeerCalls>,
        resource_type: pb::Type,
        progress: ReplicationProgress,
    ) -> Self {
        let snapshot = progress.resume_token.is_empty().then(Snapshot::default);
        let begun = Instant::now();
        let mut waits = Waits::new(Backoff::new(RETRY_WAITS.0, RETRY_WAITS.1));
        let retry_at = begun + waits.next_wait();
        Self {
            follower,
            connection,
            resource_type,
            progress,
            changes: Changeset::default(),
            snapshot,
            begun,
            retry_at,
            waits,
        }
    }

    /// Takes a message. Returns whether the replicas are current then.
    pub(crate) async fn take(&mut self, message: WatchResourcesResponse) -> Result<bool, FollowError> {
        if message.is_hard_reset {
            self.reset();
        } else if message.is_soft_reset {
            self.changes.clear();
            self.snapshot.iter_mut().for_each(|snapshot| snapshot.uids.clear());
        }
        for change in message.changes {
            self.add(change);
        }
        if self.snapshot.as_ref().is_some_and(|snapshot| snapshot.uids.len() > MAX_SNAPSHOT_UIDS) {
            return Err(FollowError::TooManyResources { limit: MAX_SNAPSHOT_UIDS });
        }
        if !message.is_current {
            if self.changes.is_full() {
                self.apply().await?;
            }
            return Ok(false);
        }
        if self.snapshot.is_some() && !self.changes.is_empty() {
            // Applied before the search for absent resources: a name with a new incarnation is present.
            self.apply().await?;
        }
        if let Some(snapshot) = &self.snapshot {
            let peer = self.follower.report.name();
            let replicas = self.follower.service.replicas();
            let held = replicas.replicas_other_than(peer, &self.resource_type, &snapshot.uids).await?;
            self.check_removals(held.missing + snapshot.replaced, snapshot.held.unwrap_or(held.number))?;
            for id in held.others {
                self.changes.remove(id);
                if self.changes.is_full() {
                    self.apply().await?;
                }
            }
        }
        self.progress.resume_token = message.resume_token;
        self.apply().await?;
        if self.snapshot.take().is_some() {
            self.follower.report.snapshot_done(&self.follower.shown);
        }
        self.follower.report.current(&self.follower.shown);
        Ok(true)
    }

    /// Drops all state: a snapshot follows.
    fn reset(&mut self) {
        let peer = self.follower.report.name().to_owned();
        metrics::counter!("mortise_region_resets_total", "peer" => peer).increment(1);
        self.changes.clear();
        self.snapshot = Some(Snapshot::default());
        self.progress.restart();
        self.follower.report.snapshot(&self.follower.shown);
    }

    fn add(&mut self, change: ResourceChange) {
        match change.change_type {
            Some(ChangeType::Current(current)) => {
                if let Some(resource) = current.resource.filter(|resource| self.belongs_here(resource)) {
                    if let (Some(snapshot), Some(id)) = (&mut self.snapshot, &resource.id) {
                        snapshot.uids.insert(uid_number(&id.uid));
                    }
                    self.changes.put(resource);
                }
            }
            Some(ChangeType::Removed(removed)) => {
                if let Some(id) = removed.name {
                    self.changes.remove(id);
                }
            }
            // Does not occur in a stateless watch.
            Some(ChangeType::Added(_) | ChangeType::Modified(_)) | None => {}
        }
    }

    /// Whether the peer owns the resource and it may be in this region. Other claims of a peer are ignored, such as
    /// that it owns what it says to have from another region.
    fn belongs_here(&self, resource: &pb::Resource) -> bool {
        let syncing = resource.meta.as_ref().and_then(|meta| meta.syncing.as_ref());
        let here = self.follower.service.region().unwrap_or_default();
        syncing.is_some_and(|syncing| {
            syncing.owning_region == self.follower.report.name()
                && syncing.copied_from.is_empty()
                && may_be_in(&syncing.regions, here)
        })
    }

    /// Applies the collected changes together with the progress.
    async fn apply(&mut self) -> Result<(), FollowError> {
        let (mut changes, gone) = self.changes.take();
        if let Some(snapshot) = &mut self.snapshot
            && !self.follower.report.trust.accepts_removals()
        {
            let (replicas, peer) = (self.follower.service.replicas(), self.follower.report.name());
            let held = match snapshot.held {
                Some(held) => held,
                None => replicas.replicas_other_than(peer, &self.resource_type, &HashSet::new()).await?.number,
            };
            snapshot.held = Some(held);
            snapshot.replaced += replicas.replaced_by(&self.progress, &changes).await?;
            let gone = snapshot.replaced;
            self.check_removals(gone, held)?;
        }
        changes.extend(self.resolve_departed(gone).await?);
        self.check_versions(&changes).await?;
        self.commit(&changes).await
    }

    /// Stops the peer if a snapshot would remove too many of its replicas.
    fn check_removals(&self, gone: usize, held: usize) -> Result<(), FollowError> {
        let trust = &self.follower.report.trust;
        if trust.accepts_removals() || trust.limit.allows(gone, held) {
            return Ok(());
        }
        let (peer, kind) = (self.follower.report.name().to_owned(), self.follower.shown.to_string());
        Err(trust.stop(StopReason::TooManyRemovals { peer, kind, gone, held }))
    }

    /// Asks the peer for its newest version if a change is beyond the known one. A version that stays beyond is
    /// deferred.
    async fn check_versions(&mut self, changes: &[ReplicatedChange]) -> Result<(), FollowError> {
        let newest = changes.iter().filter_map(|change| match change {
            ReplicatedChange::Put(resource) | ReplicatedChange::HandOver(resource) => resource.version.parse().ok(),
            ReplicatedChange::Remove { .. } => None,
        });
        if newest.max().is_some_and(|newest| self.progress.store.is_beyond(newest)) {
            let store = self.follower.identify(&*self.connection).await?;
            if store.id != self.progress.store.id {
                return Err(FollowError::Ended);
            }
            self.progress.store = store;
        }
        Ok(())
    }

    async fn commit(&mut self, changes: &[ReplicatedChange]) -> Result<(), FollowError> {
        let Follower { service, report, shown, .. } = self.follower;
        report.trust.check()?;
        let held = self.progress.deferred_len();
        let summary = service.replicas().apply(&mut self.progress, changes, self.snapshot.is_some()).await?;
        for (outcome, number) in [
            ("written", summary.written),
            ("removed", summary.removed),
            ("deferred", summary.deferred),
            ("refused", summary.refused),
        ] {
            let peer = report.name().to_owned();
            metrics::counter!("mortise_region_copies_total", "peer" => peer, "outcome" => outcome).increment(number);
        }
        report.applied(shown, summary.written + summary.removed, self.progress.deferred());
        if self.progress.deferred_len() > held {
            self.waits.reset();
            self.retry_at = Instant::now() + self.waits.next_wait();
        }
        Ok(())
    }

    /// Asks the peer about resources that left the watch. A resource that the peer still has for this region stays in
    /// its last state, since another region owns it now, or it came back; a deleted one takes along the resources that
    /// it owns.
    async fn resolve_departed(&self, gone: Vec<DepartedResource>) -> Result<Vec<ReplicatedChange>, FollowError> {
        let here = self.follower.service.region().unwrap_or_default();
        let ids: Vec<pb::Id> = gone.iter().flat_map(|gone| gone.ids.iter().cloned()).collect();
        let (mut stays, mut elsewhere, mut given) = (HashSet::new(), HashSet::new(), Vec::new());
        for chunk in ids.chunks(MAX_PRESENCE_IDS) {
            let answer = self.fetch(chunk, &["meta.syncing"]).await?;
            stays.extend(answer.unsure.into_iter().map(|id| id.uid));
            for found in answer.resources {
                let syncing = found.meta.and_then(|meta| meta.syncing).unwrap_or_default();
                let may_be_here = may_be_in(&syncing.regions, here);
                if may_be_here && syncing.owning_region != self.follower.report.name() {
                    given.extend(found.id.clone());
                }
                let uids = if may_be_here { &mut stays } else { &mut elsewhere };
                uids.extend(found.id.map(|id| id.uid));
            }
        }
        let mut changes = Vec::new();
        for chunk in given.chunks(MAX_WHOLE_RESOURCES) {
            let answer = self.fetch(chunk, &[]).await?;
            let still = |id: &pb::Id| {
                let mut ids = answer.resources.iter().filter_map(|found| found.id.as_ref()).chain(&answer.unsure);
                ids.any(|found| found.uid == id.uid)
            };
            for id in chunk.iter().filter(|id| !still(id)) {
                // Deleted since the first answer.
                stays.remove(&id.uid);
            }
            changes.extend(answer.resources.into_iter().map(|given| ReplicatedChange::HandOver(Box::new(given))));
        }
        let given: HashSet<String> = given.into_iter().map(|id| id.uid).collect();
        for DepartedResource { ids, last } in gone {
            let keeps = |id: &pb::Id| stays.contains(&id.uid) && !given.contains(&id.uid);
            match last.filter(|last| last.id.as_ref().is_some_and(keeps)) {
                Some(last) => changes.push(ReplicatedChange::Put(last)),
                None => changes.extend(ids.into_iter().filter(|id| !stays.contains(&id.uid)).map(|id| {
                    let deleted = !elsewhere.contains(&id.uid);
                    ReplicatedChange::Remove { id, deleted }
                })),
            }
        }
        Ok(changes)
    }

    /// Asks the peer for resources; one by one if an id keeps the peer from answering.
    async fn fetch(&self, ids: &[pb::Id], paths: &[&str]) -> Result<Answer, FollowError> {
        match self.fetch_batch(ids, paths).await {
            Ok(answer) => return Ok(Answer { resources: answer.resources, unsure: Vec::new() }),
            Err(e) if !e.is_about_ids() => return Err(e),
            Err(_) => {}
        }
        let mut answer = Answer::default();
        for id in ids {
            match self.fetch_batch(std::slice::from_ref(id), paths).await {
                Ok(single) => answer.resources.extend(single.resources),
                Err(e) if e.is_about_ids() => answer.unsure.push(id.clone()),
                Err(e) => return Err(e),
            }
        }
        Ok(answer)
    }

    async fn fetch_batch(&self, ids: &[pb::Id], paths: &[&str]) -> Result<BatchGetResponse, FollowError> {
        let paths: Vec<String> = paths.iter().map(|&path| path.to_owned()).collect();
        let field_mask = (!paths.is_empty()).then_some(prost_types::FieldMask { paths });
        let request = BatchGetRequest { ids: ids.to_vec(), field_mask, ..BatchGetRequest::default() };
        let answer = timeout(ANSWER_TIMEOUT, self.connection.batch_get(&self.progress.store.id, request)).await;
        Ok(answer.map_err(|_| FollowError::NoAnswer { within: ANSWER_TIMEOUT })??)
    }

    /// Time of the next retry of deferred resources.
    pub(crate) fn retry_at(&self) -> Instant {
        self.retry_at
    }

    /// Whether resources are deferred, and neither a snapshot nor changes are under way.
    pub(crate) fn may_retry(&self) -> bool {
        let has_deferred = self.progress.deferred_len() > 0 || self.progress.has_more_deferred();
        has_deferred && self.snapshot.is_none() && self.changes.is_empty()
    }

    /// Retries the deferred resources in the peer's present state. If more are deferred than can be listed, asks for a
    /// snapshot, at the earliest two minutes after the watch began.
    pub(crate) async fn retry(&mut self) -> Result<(), FollowError> {
        let ids: Vec<pb::Id> = self.progress.deferred_ids().cloned().collect();
        for chunk in ids.chunks(MAX_WHOLE_RESOURCES) {
            let answer = self.fetch(chunk, &[]).await?;
            let there = answer.resources.into_iter().filter(|resource| self.belongs_here(resource));
            let mut changes: Vec<ReplicatedChange> =
                there.map(|resource| ReplicatedChange::Put(Box::new(resource))).collect();
            let has = |changes: &[ReplicatedChange], id: &pb::Id| {
                let is_same = |other: &pb::Id| other.name == id.name && other.tenancy == id.tenancy;
                changes.iter().any(|change| is_same(&change.id())) || answer.unsure.iter().any(is_same)
            };
            // The watch reports the other resources, but does not repeat those that the peer gave away.
            let absent: Vec<&pb::Id> = chunk.iter().filter(|id| !has(&changes, id)).collect();
            let replicas = self.follower.service.replicas();
            let replicas = replicas.replicas_named(self.follower.report.name(), &absent).await?;
            let departed = replicas.into_iter().map(|id| DepartedResource { ids: vec![id], last: None }).collect();
            changes.extend(self.resolve_departed(departed).await?);
            for id in chunk.iter().filter(|id| !has(&changes, id)) {
                self.progress.forget(id);
            }
            self.check_versions(&changes).await?;
            self.commit(&changes).await?;
        }
        if self.progress.has_more_deferred() && self.begun.elapsed() > MIN_SNAPSHOT_INTERVAL {
            self.progress.restart();
            self.commit(&[]).await?;
            return Err(FollowError::TooManyDeferred);
        }
        self.retry_at = Instant::now() + self.waits.next_wait();
        Ok(())
    }
}
