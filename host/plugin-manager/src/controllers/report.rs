//! A controller's state in the form of the API.

use std::time::{Duration, SystemTime};

use mortise_controller::{Key, RecentError, State, Status};
use mortise_resource::{data, pb, types::gvk};

/// Details of a controller that are not part of its status.
pub(crate) struct ControllerDetails<'a> {
    pub(crate) plugin: &'a str,
    pub(crate) manages: pb::Type,
    pub(crate) watches: Vec<pb::Type>,
}

/// Makes the report of a controller.
pub(crate) fn report(status: Status, about: ControllerDetails<'_>) -> data::ControllerReport {
    let (state, reason) = match status.state {
        State::WaitingForLease => ("WaitingForLease", String::new()),
        State::Initializing => ("Initializing", String::new()),
        State::Priming => ("Priming", String::new()),
        State::Running => ("Running", String::new()),
        State::Stopping => ("Stopping", String::new()),
        State::Paused { reason } => ("Paused", reason),
        State::BackingOff { error, .. } => ("BackingOff", error),
        State::Stopped => ("Stopped", String::new()),
    };
    let manages = about.manages;
    let types: Vec<_> = about.watches.iter().chain([&manages]).cloned().collect();
    let shown = |errors: &[RecentError]| {
        errors.iter().filter(|error| !error.resolved).map(|error| failure(error, &manages, &types)).collect()
    };
    let (last_errors, put_off) = (shown(&status.failures), shown(&status.deferred));
    let quarantined = |(key, wait): &(Key, Duration)| data::SetAside {
        id: Some(key.id(&manages, None)),
        retry_in: Some(duration(*wait)),
    };
    data::ControllerReport {
        name: status.name.to_string(),
        plugin: about.plugin.to_owned(),
        watches: about.watches,
        state: state.to_owned(),
        reason,
        queued: status.queue_depth as u64,
        oldest: status.oldest.map(duration),
        running: status.in_progress as u64,
        deferred: status.scheduled as u64,
        reconciles: status.reconciles,
        errors: status.errors,
        requeues: status.requeues,
        throttled: status.self_wakes,
        restarts: status.restarts,
        last_errors,
        throttled_now: status.throttled as u64,
        throttled_resources: status.throttled_keys.iter().map(|key| key.id(&manages, None)).collect(),
        set_aside_now: status.quarantined as u64,
        set_aside: status.quarantined_keys.iter().map(quarantined).collect(),
        put_off,
        mapper_queued: status.mapper_queue_depth as u64,
        mapper_errors: status.mapper_errors,
        mapper_skipped: status.mapper_skipped,
        index_errors: status.index_errors,
        manages: Some(manages),
    }
}

/// The last error of a reconcile, a mapper or an index. For the latter two, the place ends with the type of the
/// resource.
fn failure(error: &RecentError, manages: &pb::Type, types: &[pb::Type]) -> data::ReconcileError {
    let reconciling = &*error.place == "reconcile";
    let resource_type = if reconciling {
        Some(manages)
    } else {
        types.iter().find(|resource_type| error.place.ends_with(&gvk(resource_type)))
    };
    data::ReconcileError {
        id: resource_type.map(|resource_type| error.key.id(resource_type, None)),
        message: if reconciling { error.message.clone() } else { format!("{}: {}", error.place, error.message) },
        count: error.count,
        first: Some(timestamp(error.first)),
        last: Some(timestamp(error.last)),
    }
}

fn duration(length: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(length.subsec_nanos()).unwrap_or(0),
    }
}

fn timestamp(time: SystemTime) -> prost_types::Timestamp {
    time.into()
}
