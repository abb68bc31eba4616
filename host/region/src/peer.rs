//! A peer region: a task for each type that may be replicated, started and stopped as types come and go.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_resource::{data::PeerState, pb::Condition};
use mortise_service::{ResourceService, registry::ResourceType};
use tokio::{
    task::{AbortHandle, Id, JoinSet},
    time::{MissedTickBehavior, interval},
};

use crate::{conditions::conditions, follower::Follower, link::Dial, options::PeerOptions, report::PeerReport};

/// The interval for comparing this server's types, setting the gauges and comparing conditions.
const COMPARE_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between two stores of conditions that differ only in their text.
const TEXT_STORE_INTERVAL: Duration = Duration::from_secs(10);

/// A group and a kind, whose versions share their resources.
type GroupKind = (String, String);

/// The versions of a kind, newest last, and the task that follows them.
type RunningTask = (Vec<Arc<ResourceType>>, AbortHandle);

/// The conditions that this process stored last.
#[derive(Default)]
struct StoredConditions {
    conditions: Vec<Condition>,
    stored_at: Option<Instant>,
    /// Whether the last attempt failed, so that only the first failure is logged.
    has_failed: bool,
}

pub(crate) struct Peer {
    service: ResourceService,
    options: PeerOptions,
    link: Arc<dyn Dial>,
    report: Arc<PeerReport>,
}

impl Peer {
    pub(crate) fn new(
        service: ResourceService,
        options: PeerOptions,
        link: Arc<dyn Dial>,
        report: Arc<PeerReport>,
    ) -> Self {
        Self { service, options, link, report }
    }

    /// Runs until the service stops and the tasks have ended.
    pub(crate) async fn run(self) {
        let (mut tasks, mut running) = (JoinSet::new(), BTreeMap::<GroupKind, RunningTask>::new());
        let (mut known, mut stored) = (None, StoredConditions::default());
        let stopped = self.service.stopped();
        tokio::pin!(stopped);
        let mut ticks = interval(COMPARE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = &mut stopped => return tasks.shutdown().await,
                _ = ticks.tick() => {
                    let types = self.service.types();
                    if !known.as_ref().is_some_and(|known| Arc::ptr_eq(known, &types)) {
                        known = Some(types);
                        self.sync_tasks(&mut tasks, &mut running);
                    }
                    self.set_gauges();
                    self.end_accepted_removals().await;
                    self.store_conditions(&mut stored).await;
                }
                Some(ended) = tasks.join_next_with_id() => {
                    let (id, fault): (Id, _) = match ended {
                        Ok((id, ())) => (id, None),
                        Err(e) => (e.id(), e.is_panic().then(|| e.to_string())),
                    };
                    if let Some(fault) = fault {
                        tracing::error!(peer = self.report.name(), "the task that pulls a type panicked and starts again; please report it: {fault}");
                        running.retain(|_, (_, task)| task.id() != id);
                        known = None;
                    }
                }
            }
        }
    }

    /// Starts tasks for new types, and stops those of types that are gone or have other versions.
    fn sync_tasks(&self, tasks: &mut JoinSet<()>, running: &mut BTreeMap<GroupKind, RunningTask>) {
        let wanted = self.service.replicas().replicated_types();
        running.retain(|kind, (versions, task)| {
            let is_same = wanted.get(kind).is_some_and(|now| {
                now.len() == versions.len() && now.iter().zip(versions.iter()).all(|(a, b)| Arc::ptr_eq(a, b))
            });
            if !is_same {
                task.abort();
                if let Some(shown) = versions.last().filter(|_| !wanted.contains_key(kind)) {
                    self.report.end(&shown.gvk);
                }
            }
            is_same
        });
        for (kind, versions) in wanted {
            let Some(shown) = versions.last().filter(|_| !running.contains_key(&kind)) else { continue };
            self.report.add_type(&shown.gvk);
            let follower = Follower {
                service: self.service.clone(),
                link: self.link.clone(),
                report: self.report.clone(),
                shown: shown.gvk.clone(),
                versions: versions.iter().map(|condition| condition.gvk.clone()).collect(),
                scope: shown.scope,
                max_backoff: self.options.max_backoff,
            };
            running.insert(kind, (versions, tasks.spawn(follower.run())));
        }
    }

    /// Stores the peer's conditions: at once when a state or reason changed, after a while when only a text did.
    async fn store_conditions(&self, stored: &mut StoredConditions) {
        let now = conditions(&self.report.to_pb(), &self.report.trust.state());
        let kind = |all: &[Condition]| {
            all.iter().map(|condition| (condition.state, condition.reason.clone())).collect::<Vec<_>>()
        };
        let is_due = stored.stored_at.is_none_or(|stored_at| {
            kind(&now) != kind(&stored.conditions) || stored_at.elapsed() > TEXT_STORE_INTERVAL
        });
        if !is_due || now == stored.conditions {
            return;
        }
        match self.service.replicas().record_peer(&self.options.name, &self.options.address, now.clone()).await {
            Ok(()) => {
                *stored = StoredConditions { conditions: now, stored_at: Some(Instant::now()), has_failed: false }
            }
            Err(e) => {
                if !std::mem::replace(&mut stored.has_failed, true) {
                    tracing::warn!(peer = self.report.name(), "the conditions of a peer cannot be stored: {e}");
                }
            }
        }
    }

    /// Ends the permission for removals that an operator gave, once every type is current.
    async fn end_accepted_removals(&self) {
        let is_over = self.report.trust.accepts_removals() && self.report.to_pb().state() == PeerState::Current;
        if is_over && let Err(e) = self.report.trust.end_accepted_removals(&self.service).await {
            tracing::warn!(peer = self.report.name(), "the end of accepted removals cannot be stored yet: {e}");
        }
    }

    fn set_gauges(&self) {
        let (totals, peer) = (self.report.totals(), self.report.name().to_owned());
        metrics::gauge!("mortise_region_lag_seconds", "peer" => peer.clone()).set(totals.lag.as_secs_f64());
        metrics::gauge!("mortise_region_deferred", "peer" => peer.clone()).set(totals.deferred as f64);
        metrics::gauge!("mortise_region_conflicts", "peer" => peer.clone()).set(totals.conflicts as f64);
        let is_stopped = self.report.trust.check().is_err();
        metrics::gauge!("mortise_region_stopped", "peer" => peer).set(f64::from(u8::from(is_stopped)));
    }
}
