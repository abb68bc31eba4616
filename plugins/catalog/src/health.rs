//! Health of a workload, from the statuses of its checks.

use mortise_plugin::{Typed, pb::condition::State};

use crate::proto::catalog::v1::{Health, Workload};

/// Condition in a check's status.
pub(crate) const PASSING: &str = "Passing";

/// Key of the status with a check's result.
pub(crate) fn status_key(check: &str) -> String {
    format!("catalog.v1/check-{check}")
}

/// Health of a workload: it passes if all its checks pass, or if it has none. A check without a result does not pass.
pub(crate) fn of(workload: &Typed<Workload>) -> Health {
    let all = workload.data.checks.iter().all(|check| passes(workload, &check.name));
    if all { Health::Passing } else { Health::Critical }
}

/// Whether the last result of a check is that it passes.
pub(crate) fn passes(workload: &Typed<Workload>, check: &str) -> bool {
    let status = workload.status_under(&status_key(check)).unwrap_or_default();
    status.conditions.iter().any(|one| one.r#type == PASSING && one.state() == State::True)
}
