//! Whether a workload is healthy: what the statuses of its checks say.

use mortise_plugin::{Typed, pb::condition::State};

use crate::proto::catalog::v1::{Health, Workload};

/// The condition of a check's status.
pub(crate) const PASSING: &str = "Passing";

/// The key of the status that has a check's result.
pub(crate) fn status_key(check: &str) -> String {
    format!("catalog.v1/check-{check}")
}

/// Healthy is a workload all of whose checks pass. A check that has said nothing does not.
pub(crate) fn of(workload: &Typed<Workload>) -> Health {
    let all = workload.data.checks.iter().all(|check| passes(workload, &check.name));
    if all { Health::Passing } else { Health::Critical }
}

/// Whether the last result of a check is that it passes.
pub(crate) fn passes(workload: &Typed<Workload>, check: &str) -> bool {
    let status = workload.status_under(&status_key(check)).unwrap_or_default();
    status.conditions.iter().any(|one| one.r#type == PASSING && one.state() == State::True)
}
