//! The commands, with a few cases each. CI runs them longer.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "tests panic to report")]

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mortise-faults")).args(arguments).output().unwrap()
}

/// Runs a command, asserts that all cases were right, and returns the number of cases in a row.
fn right(arguments: &[&str], row: &str) -> u64 {
    let output = run(arguments);
    let said = String::from_utf8(output.stdout).unwrap();
    print!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    if said.starts_with("SKIPPED: power-cuts") {
        return u64::MAX;
    }
    let row = said.lines().find(|line| line.starts_with(row)).unwrap();
    row.split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn what_was_acknowledged_survives_a_loss_of_power() {
    assert!(right(&["power-cuts", "--count=60"], "units of 512") >= 30);
}

#[test]
fn what_was_acknowledged_survives_a_loss_of_power_in_a_compaction() {
    assert!(right(&["power-cuts", "--compactions", "--count=60"], "units of 512") >= 30);
}

#[test]
fn what_was_acknowledged_survives_kills() {
    assert!(right(&["kills", "--count=25"], "read after the kill") >= 8);
}

#[test]
fn a_flipped_bit_is_noticed_or_harmless() {
    assert!(right(&["bit-flips", "--count=60", "--only=closed,killed"], "killed") >= 25);
}

#[test]
fn a_case_is_repeated_with_what_was_kept() {
    let dir = tempfile::tempdir().unwrap();
    let keep = format!("--keep={}", dir.path().display());
    let case = || {
        let output = run(&["bit-flips", "--only=killed", "--seed=7", "--case=3", &keep]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        // Verdict and bit; the rest names the copy.
        let cases = said.lines().filter_map(|line| line.split_once(" of store/").map(|(case, _)| case.to_owned()));
        cases.collect::<Vec<_>>()
    };
    let first = case();
    assert!(!first.is_empty());
    assert_eq!(case(), first);
}
