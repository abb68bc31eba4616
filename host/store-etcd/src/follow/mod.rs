//! Feeds the copy: one watch of everything below the prefix, from the revision that the copy has.
//!
//! A revision is applied whole: etcd may cut an answer anywhere, so the last revision of an incomplete answer waits for
//! the next. After a fault of the connection the watch begins again behind the applied revision. Two faults end it, with
//! the copy marked as damaged: etcd has compacted what the copy lacks, or has a lower revision than the copy, as after
//! the restoration of an older snapshot. The next start fills the copy again.
//!
//! # Cost
//! One stream for each server. At most one answer of etcd (2 MiB) waits to be applied, beside one unfinished revision.

mod convert;
mod fill;

use std::{pin::pin, sync::Arc, time::Duration};

use mortise_store::{Health, SledBackend, StoreError, follower::FollowedCommit};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use tonic::Streaming;

use self::convert::Revisions;
pub(crate) use self::fill::fill;
use crate::{
    barrier::head,
    client::{Client, Fault, RangeRequest, WatchCreateRequest, WatchResponse},
    keys::{Keys, range_end},
    planted,
};

/// Pause after a failed attempt to watch.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Pause while the disk of the copy is full.
const FULL_PAUSE: Duration = Duration::from_secs(1);
/// Time without a watch after which the cluster counts as away. A watch that lacks for so long what the cluster has is
/// opened at another server of it.
const AWAY_AFTER: Duration = Duration::from_secs(3);
/// Pause between two looks at the newest revision of the cluster.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Reason why the copy cannot be continued.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Gap {
    /// The next changes are compacted.
    #[error("etcd has compacted the changes after revision {0}")]
    Compacted(i64),
    /// The cluster is not the one that it was.
    #[error("etcd is at revision {found}, before the revision {applied} that was seen")]
    WentBack {
        /// Revision of the copy.
        applied: i64,
        /// Revision of the cluster.
        found: i64,
    },
}

/// End of an attempt to follow.
enum End {
    Fault(String),
    Gap(Gap),
    Store(StoreError),
    Stopped,
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault.to_string())
    }
}

/// The part of a server that feeds its copy.
pub(crate) struct Follower {
    pub(crate) client: Arc<Client>,
    pub(crate) keys: Keys,
    pub(crate) store: Arc<SledBackend>,
    /// Revision of the copy.
    pub(crate) applied: watch::Sender<i64>,
    pub(crate) health: watch::Sender<Health>,
    /// Counts the changes of plans.
    pub(crate) plans: watch::Sender<u64>,
}

impl Follower {
    /// Follows until the copy has no reader, or until it cannot be continued.
    pub(crate) async fn run(self) {
        let mut last_seen = Instant::now();
        loop {
            match self.attempt(&mut last_seen).await {
                End::Fault(fault) => {
                    if last_seen.elapsed() >= AWAY_AFTER {
                        self.note_away(Some(&fault));
                    }
                    sleep(RETRY_PAUSE).await;
                }
                End::Gap(gap) => {
                    let why = format!("{gap}; restart mortise, which then reads everything again");
                    tracing::error!(why, "the copy of etcd's content cannot be continued");
                    self.health.send_modify(|health| health.damaged = Some(why));
                    return;
                }
                End::Store(StoreError::Closed) | End::Stopped => return,
                End::Store(error) => {
                    tracing::error!(%error, "the copy of etcd's content takes no changes");
                    self.health.send_modify(|health| health.poisoned = Some(error.to_string()));
                    return;
                }
            }
        }
    }

    async fn attempt(&self, last_seen: &mut Instant) -> End {
        match self.follow(last_seen).await {
            Err(end) => end,
            Ok(()) => End::Stopped,
        }
    }

    async fn follow(&self, last_seen: &mut Instant) -> Result<(), End> {
        let applied = *self.applied.borrow();
        let head = self.client.range(RangeRequest { key: self.keys.head().into(), ..RangeRequest::default() }).await?;
        let found = head.header.map_or(0, |header| header.revision);
        if found < applied {
            return Err(End::Gap(Gap::WentBack { applied, found }));
        }
        let server = self.client.in_use();
        let mut stream = open(&self.client, &self.keys, applied).await?;
        let mut lagging = pin!(self.lagging());
        let mut revisions = Revisions::new(self.keys.clone());
        // Plans may have changed while there was no watch, and the copy does not have them.
        self.plans.send_modify(|changes| *changes += 1);
        loop {
            let message = tokio::select! {
                message = stream.message() => message,
                () = self.applied.closed() => return Ok(()),
                missing = &mut lagging => {
                    self.client.leave(server);
                    let fault = format!("a server of etcd has revision {missing}, and the watch does not bring it");
                    return Err(End::Fault(fault));
                }
            };
            let Some(answer) = message.map_err(Fault::from)? else {
                return Err(End::Fault("the watch ended".to_owned()));
            };
            judge(&answer, *self.applied.borrow())?;
            *last_seen = Instant::now();
            self.note_away(None);
            if let Some((commits, revision)) = revisions.add(answer) {
                self.apply(commits, revision).await?;
            }
            if revisions.take_plans_changed() {
                self.plans.send_modify(|changes| *changes += 1);
            }
        }
    }

    /// Resolves once the copy lacks for [`AWAY_AFTER`] what the cluster has; returns the revision. A server of the cluster
    /// may have a leader again, and yet get no changes from it for a while.
    async fn lagging(&self) -> i64 {
        let mut missing: Option<(i64, Instant)> = None;
        loop {
            sleep(LOOK_INTERVAL).await;
            let applied = *self.applied.borrow();
            missing = missing.filter(|(revision, _)| applied < *revision);
            match missing {
                Some((revision, since)) if since.elapsed() >= AWAY_AFTER => return revision,
                Some(_) => {}
                // A cluster that does not answer ends the watch by itself.
                None => {
                    let newest = head(&self.client, &self.keys).await.unwrap_or(0);
                    missing = Some((newest, Instant::now())).filter(|_| newest > *self.applied.borrow());
                }
            }
        }
    }

    /// Applies commits; waits while the disk is full, since no commit may be left out.
    async fn apply(&self, commits: Vec<FollowedCommit>, revision: i64) -> Result<(), End> {
        loop {
            let commits = if planted::happens(planted::Fault::FollowerSkips) { Vec::new() } else { commits.clone() };
            match self.store.follow(commits).await {
                Ok(()) => break,
                Err(StoreError::Full { .. }) => sleep(FULL_PAUSE).await,
                Err(error) => return Err(End::Store(error)),
            }
        }
        self.applied.send_replace(revision);
        // Exact up to 2⁵³.
        metrics::gauge!("mortise_etcd_applied_revision").set(revision as f64);
        Ok(())
    }

    fn note_away(&self, fault: Option<&str>) {
        let away = fault.map(|fault| format!("etcd does not answer: {fault}"));
        let changed = self.health.send_if_modified(|health| {
            let changed = health.away.is_some() != away.is_some();
            health.away.clone_from(&away);
            changed
        });
        if changed {
            metrics::gauge!("mortise_etcd_away").set(f64::from(u8::from(away.is_some())));
        }
        match (changed, away) {
            (true, Some(why)) => tracing::error!(why, "writes and consistent reads fail until etcd is back"),
            (true, None) => tracing::info!("etcd is back"),
            _ => {}
        }
    }
}

/// Opens a watch behind a revision.
async fn open(client: &Client, keys: &Keys, applied: i64) -> Result<Streaming<WatchResponse>, Fault> {
    let all = keys.all();
    let create = WatchCreateRequest {
        range_end: range_end(&all).into(),
        key: all.into(),
        start_revision: applied + 1,
        progress_notify: false,
        fragment: true,
    };
    client.watch(create).await
}

/// Refuses an answer that ends the watch.
fn judge(answer: &WatchResponse, applied: i64) -> Result<(), End> {
    match answer.canceled {
        _ if answer.compact_revision > 0 => Err(End::Gap(Gap::Compacted(applied))),
        true => Err(End::Fault(format!("etcd ended the watch: {}", answer.cancel_reason))),
        false => Ok(()),
    }
}

/// Returns the reason why a copy with a revision cannot be continued, if there is one.
pub(crate) async fn gap(client: &Client, keys: &Keys, applied: i64) -> Result<Option<Gap>, Fault> {
    let found = client.range(RangeRequest { key: keys.head().into(), ..RangeRequest::default() }).await?;
    let found = found.header.map_or(0, |header| header.revision);
    if found < applied {
        return Ok(Some(Gap::WentBack { applied, found }));
    }
    // A read of an old revision is refused once it is compacted.
    let old = RangeRequest { key: keys.head().into(), revision: applied, keys_only: true, ..RangeRequest::default() };
    match client.range(old).await {
        Err(fault) if fault.is_compacted() => Ok(Some(Gap::Compacted(applied))),
        answered => answered.map(|_| None),
    }
}
