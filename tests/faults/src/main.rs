//! Breaks stores, and compares their content afterwards with the acknowledged writes.
//!
//! | command | damage to a store |
//! |---|---|
//! | `bit-flips` | one bit of its files changes, or of a backup, or of compiled code |
//! | `kills` | the writing process is killed |
//! | `power-cuts` | the power fails: any part of the unsynced writes is lost |
//!
//! A *case* is one damaged store, backup or compiled code. A *life* is the run of one writer on a store, from its
//! opening to its end; several lives follow each other on the same store. The *ledger* has the acknowledged writes of
//! all lives.
//!
//! Each command prints a table of verdicts, and the way to repeat a wrong case; a wrong case makes the exit status 1.
//! `power-cuts` needs `strace`, and prints SKIPPED without it. `docs/architecture.md` has the results.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

mod bit_flips;
mod disk;
mod files;
mod kills;
mod ledger;
mod mortise;
mod outcome;
mod power_cuts;
mod process;
mod report;
mod resources;
mod trace;
mod writer;

use std::{process::ExitCode, sync::PoisonError};

use clap::{Parser, Subcommand};

pub(crate) use outcome::{LAST_PANIC, Outcome, last_panic};

#[derive(Parser)]
#[command(about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Cuts the power at random points of a writer's system calls, which `strace` records.
    PowerCuts(power_cuts::PowerCuts),
    /// Flips bits in the files of stores, in backups and in compiled code.
    BitFlips(bit_flips::BitFlips),
    /// The process that opens flipped stores; `bit-flips` starts it.
    #[command(hide = true)]
    Cases(bit_flips::Cases),
    /// Kills a writer again and again.
    Kills(kills::Kills),
    /// The process that writes; other commands start it.
    #[command(hide = true)]
    Writer(writer::Life),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if !matches!(cli.command, Command::Writer(_)) {
        // The engine contains panics of sled on damaged files; others are counted.
        std::panic::set_hook(Box::new(|info| {
            *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string();
        }));
    }
    let done = match &cli.command {
        Command::PowerCuts(command) => power_cuts::run(command),
        Command::BitFlips(command) => bit_flips::run(command),
        Command::Cases(cases) => bit_flips::run_cases(cases).map(|()| true),
        Command::Kills(command) => kills::run(command),
        Command::Writer(life) => writer::run(life).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
