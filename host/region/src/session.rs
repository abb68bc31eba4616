//! One watch of one type: what its messages come to, and what is tried again.

use std::{collections::HashSet, time::Duration};

use mortise_resource::{
    data::{
        BatchGetRequest, BatchGetResponse, RegionProgress, ResourceChange, WatchResourcesResponse,
        resource_change::ChangeType,
    },
    pb,
};
use mortise_service::{CopyChange, uid_number};
use tokio::time::{Instant, timeout};

use crate::{
    changeset::Changeset,
    error::FollowError,
    follower::{ANSWER, Follower},
    link::Connection,
};

/// Waits before what is held back is tried again: they double from the first to the second.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Resources that the peer is asked for at once, whole.
const WHOLE: usize = 10;
/// Resources of which the peer is asked at once whether they are there.
const ASKED: usize = 500;
/// How long after a snapshot the next one comes, where more is held back than can be named.
const NEXT_SNAPSHOT: Duration = Duration::from_secs(120);

/// A watch that is open.
pub(crate) struct Session<'a> {
    follower: &'a Follower,
    connection: Connection,
    of: pb::Type,
    progress: RegionProgress,
    changes: Changeset,
    /// The uids of a snapshot that is coming.
    snapshot: Option<HashSet<u128>>,
    begun: Instant,
    retry: (Instant, Duration),
}

impl<'a> Session<'a> {
    pub(crate) fn new(follower: &'a Follower, connection: Connection, of: pb::Type, progress: RegionProgress) -> Self {
        let snapshot = progress.resume_token.is_empty().then(HashSet::new);
        let begun = Instant::now();
        let retry = (begun + RETRY.0, RETRY.0);
        Self { follower, connection, of, progress, changes: Changeset::default(), snapshot, begun, retry }
    }

    /// Takes a message. Returns whether what is here is current then.
    pub(crate) async fn take(&mut self, message: WatchResourcesResponse) -> Result<bool, FollowError> {
        if message.is_hard_reset {
            self.reset();
        } else if message.is_soft_reset {
            self.changes.clear();
            self.snapshot.iter_mut().for_each(HashSet::clear);
        }
        for change in message.changes {
            self.add(change);
        }
        if !message.is_current {
            if self.changes.is_full() {
                self.apply().await?;
            }
            return Ok(false);
        }
        if self.snapshot.is_some() && !self.changes.is_empty() {
            // Before what is gone is looked for: a name whose incarnation changed is there, and not gone.
            self.apply().await?;
        }
        if let Some(uids) = &self.snapshot {
            let peer = self.follower.report.name();
            let gone = self.follower.service.copies_other_than(peer, &self.of, uids).await?;
            for id in gone {
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

    /// Forgets everything: a snapshot follows.
    fn reset(&mut self) {
        let peer = self.follower.report.name().to_owned();
        metrics::counter!("mortise_region_resets_total", "peer" => peer).increment(1);
        self.changes.clear();
        self.snapshot = Some(HashSet::new());
        self.progress.resume_token.clear();
        self.progress.held_back.clear();
        self.progress.held_back_more = false;
        self.follower.report.snapshot(&self.follower.shown);
    }

    fn add(&mut self, change: ResourceChange) {
        match change.change_type {
            Some(ChangeType::Current(current)) => {
                if let Some(resource) = current.resource.filter(|resource| self.is_for_here(resource)) {
                    if let (Some(uids), Some(id)) = (&mut self.snapshot, &resource.id) {
                        uids.insert(uid_number(&id.uid));
                    }
                    self.changes.put(resource);
                }
            }
            Some(ChangeType::Removed(removed)) => {
                if let Some(id) = removed.name {
                    self.changes.remove(id);
                }
            }
            // Not of such a watch.
            Some(ChangeType::Added(_) | ChangeType::Modified(_)) | None => {}
        }
    }

    /// Whether the peer owns a resource that may be here: a peer that says otherwise is not listened to.
    fn is_for_here(&self, resource: &pb::Resource) -> bool {
        let syncing = resource.meta.as_ref().and_then(|meta| meta.syncing.as_ref());
        let here = self.follower.service.region().unwrap_or_default();
        syncing.is_some_and(|syncing| {
            syncing.owning_region == self.follower.report.name() && may_be_in(&syncing.regions, here)
        })
    }

    /// Applies what is held, with the progress.
    async fn apply(&mut self) -> Result<(), FollowError> {
        let changes = self.changes.take();
        let changes = self.without_kept(changes).await?;
        self.commit(&changes).await
    }

    async fn commit(&mut self, changes: &[CopyChange]) -> Result<(), FollowError> {
        let Follower { service, report, shown, .. } = self.follower;
        let held = self.progress.held_back.len();
        let copied = service.apply_copies(&mut self.progress, changes, self.snapshot.is_some()).await?;
        for (outcome, number) in
            [("written", copied.written), ("removed", copied.removed), ("held_back", copied.held_back)]
        {
            let peer = report.name().to_owned();
            metrics::counter!("mortise_region_copies_total", "peer" => peer, "outcome" => outcome).increment(number);
        }
        report.applied(shown, copied.written + copied.removed, &self.progress.held_back);
        if self.progress.held_back.len() > held {
            self.retry = (Instant::now() + RETRY.0, RETRY.0);
        }
        Ok(())
    }

    /// Asks the peer about what was removed: what it still has for this region stays as it is, since another region owns
    /// it now, or it came back; what is deleted takes along what it owns.
    async fn without_kept(&self, changes: Vec<CopyChange>) -> Result<Vec<CopyChange>, FollowError> {
        let is_removal = |change: &CopyChange| matches!(change, CopyChange::Remove { .. });
        let (removals, mut kept): (Vec<_>, Vec<_>) = changes.into_iter().partition(is_removal);
        let here = self.follower.service.region().unwrap_or_default();
        for some in removals.chunks(ASKED) {
            let ids: Vec<pb::Id> = some.iter().map(CopyChange::id).collect();
            let answer = self.ask(ids.clone(), &["meta.syncing"]).await?;
            for id in ids {
                let found = answer
                    .resources
                    .iter()
                    .find(|found| found.id.as_ref().is_some_and(|found| found.uid == id.uid && found.name == id.name));
                let syncing = found.map(|found| found.meta.as_ref().and_then(|meta| meta.syncing.as_ref()));
                match syncing {
                    Some(Some(syncing)) if may_be_in(&syncing.regions, here) => {}
                    found => kept.push(CopyChange::Remove { id, deleted: found.is_none() }),
                }
            }
        }
        Ok(kept)
    }

    async fn ask(&self, ids: Vec<pb::Id>, paths: &[&str]) -> Result<BatchGetResponse, FollowError> {
        let paths: Vec<String> = paths.iter().map(|&path| path.to_owned()).collect();
        let field_mask = (!paths.is_empty()).then_some(prost_types::FieldMask { paths });
        let request = BatchGetRequest { ids, field_mask, ..BatchGetRequest::default() };
        let answer = timeout(ANSWER, self.connection.queries().batch_get(request)).await;
        Ok(answer.map_err(|_| FollowError::Silent { within: ANSWER })??.into_inner())
    }

    /// When what is held back is tried again.
    pub(crate) fn retry_at(&self) -> Instant {
        self.retry.0
    }

    /// Whether there is something to try again, and nothing else in between.
    pub(crate) fn may_retry(&self) -> bool {
        !self.progress.held_back.is_empty() && self.snapshot.is_none() && self.changes.is_empty()
    }

    /// Tries what is held back again, as the peer has it now.
    pub(crate) async fn retry(&mut self) -> Result<(), FollowError> {
        let ids: Vec<pb::Id> = self.progress.held_back.iter().filter_map(|held| held.id.clone()).collect();
        for some in ids.chunks(WHOLE) {
            let answer = self.ask(some.to_vec(), &[]).await?;
            let there: Vec<pb::Resource> =
                answer.resources.into_iter().filter(|resource| self.is_for_here(resource)).collect();
            let is_there = |id: &pb::Id| {
                let same = |found: &pb::Id| found.name == id.name && found.tenancy == id.tenancy;
                there.iter().filter_map(|found| found.id.as_ref()).any(same)
            };
            // What became of the others the watch says.
            self.progress
                .held_back
                .retain(|held| held.id.as_ref().is_some_and(|id| !some.contains(id) || is_there(id)));
            let changes: Vec<CopyChange> = there.into_iter().map(|one| CopyChange::Put(Box::new(one))).collect();
            self.commit(&changes).await?;
        }
        if self.progress.held_back_more && self.begun.elapsed() > NEXT_SNAPSHOT {
            self.progress.resume_token.clear();
            self.progress.held_back_more = false;
            self.commit(&[]).await?;
            return Err(FollowError::TooMuchHeldBack);
        }
        let wait = (self.retry.1 * 2).min(RETRY.1);
        self.retry = (Instant::now() + wait, wait);
        Ok(())
    }
}

fn may_be_in(regions: &[String], region: &str) -> bool {
    regions.iter().any(|one| one == region || one == "*")
}
