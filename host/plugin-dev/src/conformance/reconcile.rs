//! Rules of reconcilers: the end for a missing resource, failures of the host, rest.

use std::sync::Arc;

use mortise_cli::{CliError, Exit};
use mortise_plugin_host::{ControllerDecl, Plugin, ReconcileError};
use mortise_resource::{Code, pb};

use super::findings::{Findings, Verdict};
use crate::test::{HostCalls, ReconcileHarness};

/// Runs of one controller after which its rules are judged.
pub(super) const MAX_RUNS: usize = 64;
/// Runs within which a reconciler comes to rest.
const RUNS_TO_REST: usize = 10;
/// Failures of the host that every reconciler meets.
const FAILURES: [Code; 4] = [Code::Unavailable, Code::Aborted, Code::NotFound, Code::PermissionDenied];

const MISSING: &str = "reconcile of a missing resource ends without an error";
const FAILING: &str = "reconcile answers an error, or goes on, when its host refuses a call";
const RESTING: &str = "reconcile comes to rest: without a change it changes nothing";

/// Checks a controller.
///
/// # Errors
/// The resource cannot be stored, or the plugin does not run.
pub(super) async fn check(
    plugin: &Arc<Plugin>,
    controller: &ControllerDecl,
    resource: &pb::Resource,
    is_given: bool,
    findings: &mut Findings,
) -> Result<(), CliError> {
    let subject = format!("controller {}", controller.name);
    let harness = || {
        ReconcileHarness::new(plugin, controller, resource).map_err(|e| {
            CliError::because(Exit::Failed, e).remedy("give a resource that can be stored, by --resource FILE")
        })
    };
    findings.add(&subject, MISSING, Verdict::of(ended(harness()?.reconcile_missing().await.1).err()));

    let (calls, outcome) = harness()?.reconcile_recorded(None).await;
    if let Err(ReconcileError::Fault(fault)) = &outcome {
        findings.add(&subject, RESTING, Verdict::Broken(fault.for_operators()));
    } else if let Err(why) = ended(outcome) {
        let remedy =
            if is_given { "give another resource" } else { "give a resource with which it works, by --resource" };
        let text = format!("{why}; {remedy}");
        findings.add(&subject, RESTING, Verdict::LeftOut(text));
    } else {
        findings.add(&subject, RESTING, Verdict::of(restless(&harness()?).await));
    }
    let mut broken = None;
    let points = (0..calls.all).flat_map(|at| FAILURES.map(|code| (at, code)));
    for (at, code) in points.take(MAX_RUNS) {
        if let (_, Err(ReconcileError::Fault(fault))) = harness()?.reconcile_recorded(Some((at, code))).await {
            broken = Some(format!("call {} was answered with {code:?}: {}", at + 1, fault.for_operators()));
            break;
        }
    }
    findings.add(&subject, FAILING, Verdict::of(broken));
    Ok(())
}

/// Returns the fault or the error of a run.
fn ended<T>(outcome: Result<T, ReconcileError>) -> Result<(), String> {
    match outcome {
        Ok(_) => Ok(()),
        Err(ReconcileError::Guest(text)) => Err(format!("it answers an error: {text}")),
        Err(ReconcileError::Fault(fault)) => Err(fault.for_operators()),
    }
}

/// Reconciles until nothing changes; returns the reason why that does not happen.
async fn restless(harness: &ReconcileHarness) -> Option<String> {
    let mut last = HostCalls::default();
    for _ in 0..RUNS_TO_REST {
        let (calls, outcome) = harness.reconcile_recorded(None).await;
        if let Err(why) = ended(outcome) {
            return Some(why);
        }
        if calls.changes.is_empty() {
            return None;
        }
        last = calls;
    }
    Some(format!("run {RUNS_TO_REST} still changes something: {}", last.changes.join(", ")))
}
