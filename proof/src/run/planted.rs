//! `mortise-proof planted`: for each planted fault, runs histories against a server that has it until one is not clean.
//!
//! The server is a debug build with the feature `planted-faults`, and the variable `MORTISE_PLANTED_FAULT` names the
//! fault. The table has the number of histories and calls that each fault took, and the rule that found it.

use std::{path::PathBuf, time::Instant};

use clap::Args;
use mortise_proof::check::judge;
use mortise_test_process::Outcome;

use super::{
    history::{self, Plans, Subjects},
    world::PATIENCE,
};

/// Kills, stops and reloads of a history.
type Disturbances = (usize, usize, usize);
/// A history without any.
const QUIET: Disturbances = (0, 0, 0);

/// The faults: name, and kills, stops and reloads of each history.
const FAULTS: [(&str, Disturbances); 23] = [
    ("AckBeforeSync", (2, 0, 0)),
    ("VersionReused", (1, 0, 0)),
    ("LostEvent", QUIET),
    ("SwappedEvents", QUIET),
    ("EventBeforeVisible", QUIET),
    ("DuplicateOnResume", QUIET),
    ("WatchSkipsAtReload", (0, 0, 3)),
    ("StaleRead", QUIET),
    ("ListLacksPiece", QUIET),
    ("CasBeforeLock", QUIET),
    ("DeletionIgnoresVersion", QUIET),
    ("FinalizerIgnored", QUIET),
    ("GenerationKept", QUIET),
    ("StatusLost", QUIET),
    ("ReaperForgetsChild", QUIET),
    ("ReaperWithoutUid", QUIET),
    ("PolicyRemembered", QUIET),
    ("MoveKeepsSource", QUIET),
    ("ImportReplaces", QUIET),
    ("BlockIgnored", QUIET),
    ("ResetMissing", QUIET),
    ("ClosedMissing", (0, 1, 0)),
    ("PositionIgnored", QUIET),
];

/// Options of the command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Planted {
    /// The server, built with the feature `planted-faults`.
    #[arg(long)]
    binary: PathBuf,
    /// The fault; all of them by default.
    #[arg(long)]
    fault: Option<String>,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Histories after which a fault counts as not found.
    #[arg(long, default_value_t = 20)]
    histories: u64,
    /// Operations of a history.
    #[arg(long, default_value_t = 2_000)]
    operations: usize,
}

/// Runs the command; returns whether every fault was found.
pub(crate) async fn run(options: &Planted) -> Outcome<bool> {
    println!("| fault | histories | calls | rule that found it |\n|---|---|---|---|");
    let mut all_found = true;
    let chosen = |name: &str| options.fault.as_deref().is_none_or(|fault| fault == name);
    // Without a fault, the same build is clean.
    for (name, (kills, stops, reloads)) in
        [("none", (1, 1, 1))].into_iter().chain(FAULTS).filter(|(name, ..)| chosen(name))
    {
        let begun = Instant::now();
        let mut subjects = Subjects::start(&options.binary, &[("MORTISE_PLANTED_FAULT", name)]).await?;
        let plans = Plans {
            operations: options.operations,
            clients: 16,
            names: 12,
            kills,
            stops,
            reloads,
            backups: 1,
            patience: PATIENCE,
            disturbance: None,
        };
        let (mut histories, mut calls, mut found) = (0, 0, None);
        let most = if name == "none" { 3 } else { options.histories };
        while histories < most && found.is_none() {
            let seed = options.seed + histories;
            let (history, _) = history::run(&mut subjects, &plans, seed, format!("h{histories}x")).await?;
            histories += 1;
            calls += history.operations().count();
            found = judge(&history).into_iter().next();
        }
        let rule = found.as_ref().map_or("-".to_owned(), |violation| violation.rule.clone());
        println!("| {name} | {histories} | {calls} | {rule} |");
        if let Some(violation) = &found {
            eprintln!("{name}, {:.1} s: {violation}", begun.elapsed().as_secs_f64());
        }
        all_found &= found.is_some() != (name == "none");
        if let Some(server) = subjects.server {
            server.stop().await?;
        }
    }
    Ok(all_found)
}
