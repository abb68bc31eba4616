//! The picture that `plot` makes from reports.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{fs, process::Command};

const REPORT: &str = r#"{
  "command": ["calls"], "rounds": 3, "round_ms": 1000,
  "machine": {"processor": "A & B", "processors": 2, "architecture": "x86_64", "memory_mib": 8000, "kernel": "6.1"},
  "lines": [
    {"work": "a heading", "figures": []},
    {"work": "Read", "clients": 64, "figures": [
      {"subject": "mortise", "value": 3000.0, "unit": "/s"}, {"subject": "ceiling", "value": 4000.0, "unit": "/s"},
      {"subject": "mortise", "value": 19.44, "unit": "µs of the processor"},
      {"subject": "ceiling", "value": 17.0, "unit": "µs of the processor"}]}
  ]
}"#;

/// Runs the program on a file with this content. Returns the picture, or the error.
fn plot(report: &str) -> Result<String, String> {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("report.json"), dir.path().join("picture.svg"));
    fs::write(&file, report).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_mortise-bench")).arg("plot").arg(file).arg("--out").arg(&out).output();
    let run = run.unwrap();
    if run.status.success() {
        return Ok(fs::read_to_string(out).unwrap());
    }
    Err(String::from_utf8(run.stderr).unwrap())
}

#[test]
fn a_report_becomes_a_picture_with_its_names_and_figures() {
    let picture = plot(REPORT).unwrap();
    assert!(picture.starts_with("<svg "), "{picture}");
    for text in ["Read, 64 clients, beside ceiling", "0.75", "19.4 and 17.0", "2 × A &amp; B"] {
        assert!(picture.contains(text), "no {text:?} in\n{picture}");
    }
}

#[test]
fn what_is_no_report_is_refused() {
    let said = plot("{}").unwrap_err();
    assert!(said.contains("cannot be read as a report") && said.contains("--json"), "{said}");
    let said = plot(&REPORT.replace("clients\": 64", "clients\": null")).unwrap_err();
    assert!(said.contains("compare no two servers"), "{said}");
}
