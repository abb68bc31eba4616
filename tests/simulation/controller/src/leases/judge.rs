//! The promises, on the record of a course.

use std::collections::BTreeSet;

use super::record::{Entry, Step};

/// A server's right to the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    None,
    Held,
    /// Revoked; the number of runs that have begun since.
    Revoked(usize),
}

/// Judges each server of a course.
pub(super) fn judge(record: &[Entry]) {
    for server in 0..2 {
        let steps: Vec<Step> = record.iter().filter(|entry| entry.server == server).map(|entry| entry.step).collect();
        judge_server(&steps);
    }
}

fn judge_server(steps: &[Step]) {
    let (mut right, mut least) = (Right::None, 0);
    let (mut has_started, mut working) = (false, BTreeSet::new());
    for step in steps {
        if let Some(definition) = step.definition() {
            assert!(right != Right::None, "code runs only with the lease: {step:?} in {steps:?}");
            assert!(definition >= least, "a replaced definition runs no more: {step:?} in {steps:?}");
        }
        match step {
            Step::Granted => right = Right::Held,
            Step::Revoked => right = Right::Revoked(0),
            Step::Returned | Step::Ended => {
                right = Right::None;
                assert!(working.is_empty() && !has_started, "a run has ended before its lease: {steps:?}");
            }
            Step::Replaced(definition) => least = *definition,
            Step::Initializes(_) => {
                assert!(!has_started && working.is_empty(), "runs overlap: {steps:?}");
                if let Right::Revoked(runs) = &mut right {
                    *runs += 1;
                    assert!(*runs < 2, "runs begin without a lease: {steps:?}");
                }
            }
            Step::Starts(_) => {
                assert!(!has_started, "runs overlap: {steps:?}");
                has_started = true;
            }
            Step::Reconciles(_, name) => {
                assert!(has_started, "a reconcile is part of a run: {steps:?}");
                assert!(working.insert(*name), "a resource is reconciled twice at once: {name} in {steps:?}");
            }
            Step::Reconciled(_, name) => {
                working.remove(name);
            }
            Step::Stops(_) => {
                assert!(has_started && working.is_empty(), "a run ends behind its work: {steps:?}");
                has_started = false;
            }
        }
    }
    assert!(!has_started && working.is_empty(), "every run ends: {steps:?}");
}
