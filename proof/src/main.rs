//! Runs random histories against servers, and judges their records.
//!
//! | command | work |
//! |---|---|
//! | `histories` | runs histories, and judges each; a failing one is shrunk and kept as a file |
//! | `faults` | runs histories during faults of the machine |
//! | `soak` | samples a server under a steady load, and looks for slopes |
//! | `check` | judges the record in a file |
//! | `component` | writes the plugin of nodes and drafts, for servers that others run |
//! | `planted` | runs histories against servers with planted faults, until each fault is found |
//!
//! `docs/reliability.md` has the promises and the results.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

mod run;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use mortise_test_process::Outcome;

use run::{
    faults::{self, Faults},
    histories::{self, Histories},
    planted::{self, Planted},
    server::REFERENCES_WASM,
    soak::{self, Soak},
};

#[derive(Parser)]
#[command(about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs random histories, and judges them.
    Histories(Histories),
    /// Runs histories against servers with planted faults, until each is found.
    Planted(Planted),
    /// Runs histories during faults of the machine: files that fail, threads and files refused, clocks that go back.
    Faults(Faults),
    /// Samples a server under a steady load with reloads and a kill; fails if memory, files or time rise.
    Soak(Soak),
    /// Judges the record in a file.
    Check {
        /// The file, as `histories` keeps it.
        file: PathBuf,
    },
    /// Writes the plugin whose resources refer to each other, for servers that run already.
    Component {
        /// The file.
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    match work(&Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn work(command: &Command) -> Outcome<bool> {
    match command {
        Command::Histories(options) => runtime()?.block_on(histories::run(options)),
        Command::Planted(options) => runtime()?.block_on(planted::run(options)),
        Command::Faults(options) => runtime()?.block_on(faults::run(options)),
        Command::Soak(options) => runtime()?.block_on(soak::run(options)),
        Command::Check { file } => histories::check(file),
        Command::Component { file } => {
            std::fs::write(file, REFERENCES_WASM)?;
            Ok(true)
        }
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}
