//! The reported state of a peer and its types.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use mortise_resource::{
    data::{HeldBack, HeldBackReason, PeerRegion, PeerState, PeerType},
    pb,
    types::Gvk,
};
use parking_lot::Mutex;

use crate::trust::{PeerTrust, RemovalLimit};

/// The reported state of a peer.
pub(crate) struct PeerReport {
    name: String,
    address: String,
    pub(crate) trust: Arc<PeerTrust>,
    types: Mutex<BTreeMap<Gvk, TypeReport>>,
}

/// The reported state of a type.
struct TypeReport {
    state: PeerState,
    /// Time when the type was last current, or of the start.
    current: Instant,
    applied: u64,
    snapshots: u64,
    deferred: Vec<HeldBack>,
    last_error: String,
    failed_at: Option<SystemTime>,
}

/// Sums over the types of a peer.
pub(crate) struct PeerTotals {
    pub(crate) lag: Duration,
    pub(crate) deferred: usize,
    pub(crate) conflicts: usize,
}

impl TypeReport {
    fn lag(&self) -> Duration {
        match self.state {
            PeerState::Current | PeerState::UnknownThere => Duration::ZERO,
            _ => self.current.elapsed(),
        }
    }
}

impl PeerReport {
    pub(crate) fn new(name: &str, address: &str, limit: RemovalLimit) -> Self {
        let trust = Arc::new(PeerTrust::new(name, address, limit));
        Self { name: name.to_owned(), address: address.to_owned(), trust, types: Mutex::default() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Adds a type to the report; a type that is in it keeps its figures.
    pub(crate) fn add_type(&self, resource_type: &Gvk) {
        let fresh = || TypeReport {
            state: PeerState::Connecting,
            current: Instant::now(),
            applied: 0,
            snapshots: 0,
            deferred: Vec::new(),
            last_error: String::new(),
            failed_at: None,
        };
        self.types.lock().entry(resource_type.clone()).or_insert_with(fresh);
    }

    /// Removes a type from the report.
    pub(crate) fn end(&self, resource_type: &Gvk) {
        self.types.lock().remove(resource_type);
    }

    fn with(&self, resource_type: &Gvk, change: impl FnOnce(&mut TypeReport)) {
        self.types.lock().get_mut(resource_type).map(change);
    }

    pub(crate) fn answered(&self, resource_type: &Gvk, begins_with_snapshot: bool) {
        self.with(resource_type, |report| {
            report.failed_at = None;
            report.state = if begins_with_snapshot { PeerState::Snapshot } else { PeerState::Connecting };
        });
    }

    pub(crate) fn snapshot(&self, resource_type: &Gvk) {
        self.with(resource_type, |report| report.state = PeerState::Snapshot);
    }

    pub(crate) fn snapshot_done(&self, resource_type: &Gvk) {
        self.with(resource_type, |report| report.snapshots += 1);
    }

    pub(crate) fn current(&self, resource_type: &Gvk) {
        self.with(resource_type, |report| {
            report.state = PeerState::Current;
            report.current = Instant::now();
            report.last_error.clear();
        });
    }

    pub(crate) fn applied(&self, resource_type: &Gvk, replicas: u64, deferred: Vec<HeldBack>) {
        self.with(resource_type, |report| {
            report.applied += replicas;
            report.deferred = deferred;
        });
    }

    pub(crate) fn failed(&self, resource_type: &Gvk, error: String, unknown: bool) {
        self.with(resource_type, |report| {
            if report.state == PeerState::Current {
                report.current = Instant::now();
            }
            report.state = if unknown { PeerState::UnknownThere } else { PeerState::Failed };
            report.last_error = error;
            if !unknown {
                report.failed_at.get_or_insert_with(SystemTime::now);
            }
        });
    }

    pub(crate) fn totals(&self) -> PeerTotals {
        let types = self.types.lock();
        let deferred = |report: &TypeReport| report.deferred.len();
        let conflicts = |report: &TypeReport| {
            report.deferred.iter().filter(|held| held.reason() == HeldBackReason::Conflict).count()
        };
        PeerTotals {
            lag: types.values().map(TypeReport::lag).max().unwrap_or_default(),
            deferred: types.values().map(deferred).sum(),
            conflicts: types.values().map(conflicts).sum(),
        }
    }

    pub(crate) fn to_pb(&self) -> PeerRegion {
        let trust = self.trust.state();
        let types = self.types.lock();
        let known = || types.values().filter(|report| report.state != PeerState::UnknownThere);
        // The states, furthest from current first.
        let order = [PeerState::Failed, PeerState::Connecting, PeerState::Snapshot, PeerState::Current];
        let state = order.into_iter().find(|state| known().any(|report| report.state == *state));
        let state = if trust.stop.is_some() { Some(PeerState::Stopped) } else { state };
        let failed = known().filter(|report| report.state == PeerState::Failed);
        PeerRegion {
            name: self.name.clone(),
            address: self.address.clone(),
            state: state.unwrap_or(PeerState::Connecting).into(),
            unreachable_since: known()
                .all(|report| report.failed_at.is_some())
                .then(|| known().filter_map(|report| report.failed_at).min())
                .flatten()
                .map(prost_types::Timestamp::from),
            last_error: failed.map(|report| report.last_error.clone()).next().unwrap_or_default(),
            types: types.iter().map(|(resource_type, report)| report.to_pb(resource_type.to_pb())).collect(),
            store_id: trust.bound.map(|bound| bound.id).unwrap_or_default(),
            stopped: trust.stop.map(|reason| reason.to_string()).unwrap_or_default(),
        }
    }
}

impl TypeReport {
    fn to_pb(&self, resource_type: pb::Type) -> PeerType {
        PeerType {
            r#type: Some(resource_type),
            state: self.state.into(),
            lag: prost_types::Duration::try_from(self.lag()).ok(),
            applied: self.applied,
            snapshots: self.snapshots,
            held_back: self.deferred.clone(),
            last_error: self.last_error.clone(),
        }
    }
}
