//! The life of a probe.

use std::{sync::Arc, time::Duration};

use mortise_resource::{Code, pb};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use super::{
    attempt::{Attempt, Finding},
    places::Places,
    specification::{Check, Kind, Specification, Thresholds},
    writer::ProbeWriter,
};
use crate::{failure::Failure, grants::Permit};

/// Part of an interval by which the host varies it in both directions, so that probes with one interval spread.
const JITTER: f64 = 0.05;

/// Wait before a write that failed is repeated, for a probe that makes no attempts.
const WRITE_RETRY_WAIT: Duration = Duration::from_secs(1);

/// The state of the resource, from the controller's last call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    pub(super) version: String,
    pub(super) generation: String,
    pub(super) stored: Option<Found>,
}

/// The content of a status.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    updated_at: Option<prost_types::Timestamp>,
    condition: Option<pb::Condition>,
}

/// A probe of a resource.
pub(super) struct Probe {
    pub(super) id: pb::Id,
    pub(super) key: String,
    pub(super) group: Arc<str>,
    pub(super) specification: Arc<Specification>,
    pub(super) known: watch::Receiver<Known>,
    pub(super) permit: Arc<Permit>,
    pub(super) writer: Arc<dyn ProbeWriter>,
    pub(super) places: Arc<Places>,
    pub(super) attempt: Arc<dyn Attempt>,
    pub(super) label: String,
}

/// The outcome of a write.
#[derive(Debug, PartialEq, Eq)]
enum Written {
    Done,
    /// The resource has changed, or the server could not write.
    Later,
    /// The resource is gone.
    Gone,
}

impl Found {
    /// The condition of this type in a status.
    pub(super) fn of(status: &pb::Status, condition: &str) -> Self {
        let condition = status.conditions.iter().find(|one| one.r#type == condition).cloned();
        Self { updated_at: status.updated_at, condition }
    }

    fn passes(&self) -> bool {
        self.condition.as_ref().is_some_and(|condition| condition.state() == pb::condition::State::True)
    }
}

/// Whether a check passes, and the results in a row that say otherwise.
struct Judgement {
    thresholds: Thresholds,
    passes: bool,
    against: u32,
}

impl Judgement {
    /// Takes a result. Returns whether it tells the state, rather than being one of too few against it.
    fn take(&mut self, passes: bool) -> bool {
        if passes == self.passes {
            self.against = 0;
            return true;
        }
        self.against = self.against.saturating_add(1);
        let needed = if passes { self.thresholds.passing_after } else { self.thresholds.failing_after };
        if self.against < needed {
            return false;
        }
        (self.passes, self.against) = (passes, 0);
        true
    }
}

impl Probe {
    /// Runs until the resource is gone.
    pub(super) async fn run(self) {
        match self.specification.clone().kind {
            Kind::Report(time) => self.follow_reports(time).await,
            Kind::Active { ref check, interval, timeout } => self.repeat(check, interval, timeout).await,
        }
    }

    /// Fails the status of each report that is older than `time`.
    async fn follow_reports(mut self, time: Duration) {
        let attempt = self.attempt.clone();
        let (mut report, mut due, mut failing_since) = (None, None, None);
        loop {
            let known = self.known.borrow_and_update().clone();
            let reported = known.stored.clone().filter(Found::passes);
            if reported != report {
                due = reported.is_some().then(|| self.attempt.ran() + time);
                report = reported;
            }
            failing_since = match &report {
                Some(_) => None,
                None => Some(failing_since.unwrap_or_else(Instant::now)),
            };
            let deletion = self.specification.delete_after.zip(failing_since).map(|(after, since)| since + after);
            tokio::select! {
                changed = self.known.changed() => if changed.is_err() { return },
                () = until_ran(&*attempt, due) => {
                    let text = format!("no client reported within {time:?} (ttl of the check)");
                    // A client that was faster has changed the version.
                    match self.write(&known.version, false, "Expired", text).await {
                        Written::Done => due = None,
                        Written::Gone => return,
                        // The controller passes a changed resource on; a server that cannot write is asked again.
                        Written::Later => tokio::select! {
                            changed = self.known.changed() => if changed.is_err() { return },
                            () = sleep(WRITE_RETRY_WAIT) => {}
                        },
                    }
                }
                () = until(deletion) => if self.delete().await { return } else { sleep(WRITE_RETRY_WAIT).await },
            }
        }
    }

    /// Makes attempts, one after each interval.
    async fn repeat(mut self, check: &Check, interval: Duration, timeout: Duration) {
        let mut last = self.known.borrow().stored.clone();
        let passes = last.as_ref().is_some_and(Found::passes);
        let mut judgement = Judgement { thresholds: self.specification.thresholds, passes, against: 0 };
        let mut failing_since = None;
        loop {
            let Some(place) = self.places.take(&self.group).await else { return };
            let found = match tokio::time::timeout(timeout, self.attempt.attempt(check, &self.permit)).await {
                Ok(found) => found,
                Err(_) => self.attempt.late(check, timeout),
            };
            drop(place);
            self.count(check, &found);
            let known = self.known.borrow_and_update().clone();
            // A client may have written the status meanwhile.
            let newer = |stored: &Found| time(stored) > last.as_ref().map_or((0, 0), time);
            if let Some(stored) = known.stored.filter(newer) {
                last = Some(stored);
            }
            let tells = judgement.take(found.passes);
            let condition = match found.passes && !judgement.passes {
                true => {
                    let needed = judgement.thresholds.passing_after;
                    let text = format!("{}; the check passes after {needed} of these in a row", found.message);
                    self.condition(false, "Pending", text)
                }
                false => self.condition(found.passes, found.reason, found.message),
            };
            let is_news = last.as_ref().and_then(|last| last.condition.as_ref()) != Some(&condition);
            // The first result is written in any case: a check without a status does not show why.
            if is_news && (tells || last.is_none()) {
                match self.write_condition("", condition.clone()).await {
                    Written::Done => last = Some(Found { updated_at: now(), condition: Some(condition) }),
                    Written::Later => {}
                    Written::Gone => return,
                }
            }
            failing_since = if judgement.passes { None } else { Some(failing_since.unwrap_or_else(Instant::now)) };
            let deletion = self.specification.delete_after.zip(failing_since).map(|(after, since)| since + after);
            if deletion.is_some_and(|at| at <= Instant::now()) && self.delete().await {
                return;
            }
            let factor = 1.0 - JITTER + 2.0 * JITTER * fastrand::f64();
            sleep(interval.mul_f64(factor)).await;
        }
    }

    fn count(&self, check: &Check, found: &Finding) {
        let outcome = if found.passes { "passing" } else { "failing" };
        metrics::counter!(
            "mortise_plugin_probe_attempts_total",
            "plugin" => self.label.clone(), "kind" => check.name(), "outcome" => outcome
        )
        .increment(1);
    }

    fn condition(&self, passes: bool, reason: &str, message: String) -> pb::Condition {
        let state = if passes { pb::condition::State::True } else { pb::condition::State::False };
        pb::Condition {
            r#type: self.specification.condition.clone(),
            state: state.into(),
            reason: reason.to_owned(),
            message,
            ..pb::Condition::default()
        }
    }

    async fn write(&self, version: &str, passes: bool, reason: &str, message: String) -> Written {
        self.write_condition(version, self.condition(passes, reason, message)).await
    }

    async fn write_condition(&self, version: &str, condition: pb::Condition) -> Written {
        let observed_generation = self.known.borrow().generation.clone();
        let status = pb::Status { observed_generation, conditions: vec![condition], ..pb::Status::default() };
        match self.writer.write_status(self.id.clone(), version.to_owned(), self.key.clone(), status).await {
            Ok(()) => Written::Done,
            Err(failure) if failure.is(Code::NotFound) => Written::Gone,
            Err(failure) => {
                self.complain("a result was not written", &failure);
                Written::Later
            }
        }
    }

    /// Deletes the resource; returns whether it is gone.
    async fn delete(&self) -> bool {
        tracing::info!(
            plugin = self.label,
            resource = self.id.name,
            key = self.key,
            "deleted: its check failed for too long"
        );
        match self.writer.delete(self.id.clone()).await {
            Ok(()) => true,
            Err(failure) => {
                self.complain("a resource whose check failed for too long was not deleted", &failure);
                false
            }
        }
    }

    fn complain(&self, what: &str, failure: &Failure) {
        tracing::debug!(plugin = self.label, resource = self.id.name, key = self.key, "{what}: {}", failure.message);
    }
}

/// Waits until the process ran for so long.
async fn until_ran(attempt: &dyn Attempt, due: Option<Duration>) {
    let Some(due) = due else { return std::future::pending().await };
    while let Some(left) = due.checked_sub(attempt.ran()).filter(|left| !left.is_zero()) {
        sleep(left).await;
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn time(found: &Found) -> (i64, i32) {
    found.updated_at.map_or((0, 0), |stamp| (stamp.seconds, stamp.nanos))
}

/// The date, as the server writes it into statuses.
fn now() -> Option<prost_types::Timestamp> {
    Some(mortise_clock::date().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_changes_after_results_in_a_row() {
        for (passing_after, failing_after, results, states, tells) in [
            (1, 1, "-+--++", "-+--++", "tttttt"),
            (3, 2, "++-+++-+--+", "-----++++--", "..t..t.t.t."),
            (2, 3, "+++--+---++", "-+++++++--+", ".tt..t..t.t"),
        ] {
            let thresholds = Thresholds { passing_after, failing_after };
            let mut judgement = Judgement { thresholds, passes: false, against: 0 };
            let (mut found, mut told) = (String::new(), String::new());
            for result in results.chars() {
                told.push(if judgement.take(result == '+') { 't' } else { '.' });
                found.push(if judgement.passes { '+' } else { '-' });
            }
            assert_eq!((found.as_str(), told.as_str()), (states, tells), "{results}");
        }
    }
}
