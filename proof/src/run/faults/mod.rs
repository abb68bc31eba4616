//! `mortise-proof faults`: faults of the machine while histories run, and at starts.
//!
//! # Contract
//! Each fault has a promise (`scenario.rs`): the answers to writes while it lasts, a line of the log, and the recovery.
//! Reads are answered in any case. The history around the fault must be clean, and afterwards the store and the audit
//! log must be in order (`mortise check`, `mortise audit verify`): so nothing that was acknowledged is lost.
//!
//! # Limits
//! Linux, with `cc` and `prlimit` (util-linux); `shim.rs` has the limits of the failing calls.

mod course;
mod probe;
mod scenario;
mod shim;
mod start;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use mortise_proof::check::judge;
use mortise_test_process::{Outcome, sibling};

pub(crate) use self::probe::status_of;

use self::{
    course::Course,
    scenario::{Cause, SCENARIOS, Scenario, Work, Writes},
    shim::Shim,
};
use super::{history::Subjects, server::Server};

/// Options of the command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Faults {
    /// Binary to start; by default, the binary `mortise` beside this one.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The fault; all of them by default.
    #[arg(long)]
    fault: Option<String>,
    /// Only the faults that each run of the tests has.
    #[arg(long)]
    quick: bool,
    /// Seed of the random choices; a fresh one by default.
    #[arg(long)]
    seed: Option<u64>,
    /// Time for which the process is stopped, seconds.
    #[arg(long, default_value_t = 3)]
    stopped_seconds: u64,
    /// Folder for the records of failures.
    #[arg(long, default_value = "target/proof")]
    keep: PathBuf,
}

/// Runs the command; returns whether every promise was kept.
pub(crate) async fn run(options: &Faults) -> Outcome<bool> {
    let tools = tempfile::tempdir()?;
    let Some(shim) = Shim::build(tools.path())? else {
        eprintln!("SKIPPED: no cc on PATH, which compiles the library of failing calls");
        return Ok(true);
    };
    if std::process::Command::new("prlimit").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no prlimit on PATH (package util-linux)");
        return Ok(true);
    }
    let binary = options.binary.clone().map_or_else(|| sibling("mortise"), Ok)?;
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1 << 48));
    println!("seed {seed}");
    println!("| fault | calls that met it | answers to writes | time |\n|---|---|---|---|");
    let chosen = |scenario: &&Scenario| match &options.fault {
        Some(name) => scenario.name == name,
        None => scenario.is_quick || !options.quick,
    };
    let (mut count, mut broken) = (0, 0);
    for scenario in SCENARIOS.iter().filter(chosen) {
        let begun = Instant::now();
        count += 1;
        shim.clear()?;
        match one(&binary, &shim, scenario, options, seed).await {
            Ok((hits, answers)) => {
                let hits = if matches!(scenario.cause, Cause::Calls(_)) { hits.to_string() } else { "-".to_owned() };
                let answers = if answers.is_empty() { "done" } else { &answers };
                println!("| {} | {hits} | {answers} | {:.1} s |", scenario.name, begun.elapsed().as_secs_f64());
            }
            Err(error) => {
                broken += 1;
                println!("| {} | broken | {error} | {:.1} s |", scenario.name, begun.elapsed().as_secs_f64());
            }
        }
    }
    if count == 0 {
        let name = options.fault.as_deref().unwrap_or_default();
        return Err(
            format!("--fault: {name:?} is not the name of a fault; run without --fault to see all names").into()
        );
    }
    println!("{count} faults, {broken} broken promises");
    Ok(broken == 0)
}

async fn one(binary: &Path, shim: &Shim, scenario: &Scenario, options: &Faults, seed: u64) -> Outcome<(u64, String)> {
    let variables = [
        // Checkpoints come often, and reads go to the file.
        ("MORTISE_STORE_CACHE_BYTES", "131072"),
        ("MORTISE_AUDIT_EVENTS", "changes"),
        ("MORTISE_LOG_LEVEL", "info"),
    ];
    let mut env = shim.env();
    env.extend(variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
    if scenario.work == Work::Start {
        return Ok((start::run(binary, env, shim, scenario).await?, "no start".to_owned()));
    }
    let mut subjects = Subjects::begin(Server::prepare(binary, tempfile::tempdir()?, env)?).await?;
    let stopped = Duration::from_secs(options.stopped_seconds);
    let Course { history, hits, answers } = course::run(&mut subjects, shim, scenario, stopped, seed).await?;
    let violations = judge(&history);
    if let Some(first) = violations.first() {
        std::fs::create_dir_all(&options.keep)?;
        let file = options.keep.join(format!("{}-{seed}.json", scenario.name));
        std::fs::write(&file, serde_json::to_vec(&history)?)?;
        return Err(format!("{} violations, such as {first}; record: {}", violations.len(), file.display()).into());
    }
    let mut server = subjects.server.ok_or("no server")?;
    if let Some(process) = server.take_process() {
        process.stop().await?;
    }
    in_order(&server, scenario).await?;
    Ok((hits, answers))
}

/// Checks the store and the audit log of a stopped server.
async fn in_order(server: &Server, scenario: &Scenario) -> Outcome<()> {
    let data = server.dir().join("data");
    let data = data.to_str().ok_or("a path that is not a text")?;
    for args in [["check", "--data-dir", data].as_slice(), &["audit", "verify", "--data-dir", data]] {
        let output = server.command(args, &[]).await?;
        if !output.status.success() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            return Err(format!("{}: {}{}", args.join(" "), text(&output.stdout), text(&output.stderr)).into());
        }
    }
    let log = server.log()?;
    let is_panic = |line: &&str| line.contains("panicked");
    match log.lines().find(is_panic).filter(|_| scenario.writes != Writes::MayEnd) {
        Some(line) => Err(format!("the log has a panic: {line}").into()),
        None => Ok(()),
    }
}
