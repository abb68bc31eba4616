//! `kills`: kills a process at work, again and again on the same store.
//!
//! The [writer](crate::writer) reports its next write and each acknowledgement on a pipe, and is killed without warning
//! at any moment, also while it opens or compacts the store. The next life reads the content of the store, or this
//! process does, which also checks all of it. Now and then a store is killed while it is made.
//!
//! The machine decides the moment of a kill, so a case cannot be repeated; `--keep` keeps a copy of the store.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use fastrand::Rng;
use mortise_store::{Backend, SledBackend};

use crate::{
    Outcome, files,
    ledger::{Comparison, Content, Ledger},
    process::lines_of,
    report::{Bound, Table, work_dir},
    resources::{describe, id},
    writer::{End, Life, content, options, wait_until_free},
};

/// Options of the command.
#[derive(Debug, Args)]
pub(crate) struct Kills {
    /// Number of kills.
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// Seconds to run instead, with any number of kills.
    #[arg(long)]
    seconds: Option<u64>,
    /// Seed of random choices; the moments of kills do not depend on it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A directory for a copy of each wrong store.
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// Counts of a run.
#[derive(Default)]
struct Totals {
    table: Table,
    in_flight: u64,
    opened: u64,
    checkpoints: u64,
    present: u64,
    absent: u64,
}

/// Runs the command. Returns whether all was well.
pub(crate) fn run(command: &Kills) -> Outcome<bool> {
    let work = work_dir()?;
    let data = work.path().join("data");
    let bound = Bound::new(command.count, command.seconds);
    let begun = Instant::now();
    let mut random = Rng::with_seed(command.seed);
    let (mut ledger, mut totals) = (Ledger::default(), Totals::default());
    let mut kill = 0;
    while bound.allows(kill) {
        if kill % 20 == 19 {
            let faults = made(&work.path().join("new"), &mut random)?;
            count(command, &mut totals, "while it is made", kill, &faults, &work.path().join("new"))?;
            fs::remove_dir_all(work.path().join("new"))?;
            kill += 1;
            continue;
        }
        let mut faults = Vec::new();
        ledger.begin_life();
        let (opened, ended) = live(&data, &mut random, kill, |line| {
            let comparison =
                ledger.hear(line).unwrap_or_else(|fault| Comparison { faults: vec![fault], ..Comparison::default() });
            totals.present += comparison.present;
            totals.absent += comparison.absent;
            faults.extend(comparison.faults);
        })?;
        totals.opened += u64::from(opened);
        totals.in_flight += u64::from(ledger.is_writing());
        // Both files of the log are in use once a life has reached its second checkpoint.
        let used = |name: &str| fs::metadata(data.join("store").join(name)).is_ok_and(|file| file.len() > 0);
        totals.checkpoints += u64::from(used("wal.0") && used("wal.1"));
        // The writer found a fault, and reported it on its standard error.
        let failed = ended.map(|status| format!("the writer ended by itself, with {status}"));
        faults.extend(failed.clone());
        if !faults.is_empty() {
            count(command, &mut totals, "heard of a life", kill, &faults, &data)?;
        }
        // Not every time: a store that several lives leave to the next one is a case of its own.
        let row = if kill % 3 == 2 { "read after the kill" } else { "read by the next life" };
        let mut faults = Vec::new();
        if failed.is_some() {
            break;
        }
        if kill % 3 == 2 {
            let comparison = examine(&data, &mut ledger);
            totals.present += comparison.present;
            totals.absent += comparison.absent;
            faults = comparison.faults;
        }
        count(command, &mut totals, row, kill, &faults, &data)?;
        kill += 1;
    }
    let last = examine(&data, &mut ledger);
    count(command, &mut totals, "at the end", kill, &last.faults, &data)?;
    println!("kills, seed {}: {:.0} s", command.seed, begun.elapsed().as_secs_f64());
    print!("{}", totals.table);
    println!(
        "{} writes acknowledged, {} refused as they had to be; {} of {kill} lives came to their writes, {} to checkpoints; {} kills \
         cut writes in flight: {} of these are there, {} are not",
        ledger.writes,
        ledger.refusals,
        totals.opened,
        totals.checkpoints,
        totals.in_flight,
        totals.present,
        totals.absent
    );
    if kill >= 10 && totals.table.sum("WRONG") == 0 && (totals.in_flight == 0 || ledger.writes == 0) {
        return Err("no kill came during a write, or no write was acknowledged".into());
    }
    Ok(totals.table.sum("WRONG") == 0)
}

/// Counts a case, and reports its faults.
fn count(command: &Kills, totals: &mut Totals, row: &str, kill: u64, faults: &[String], data: &Path) -> Outcome<()> {
    totals.table.add(row, if faults.is_empty() { "right" } else { "WRONG" });
    if faults.is_empty() {
        return Ok(());
    }
    println!("WRONG: --seed {}, kill {kill}, {row}:", command.seed);
    faults.iter().take(8).for_each(|fault| println!("    {fault}"));
    if let Some(keep) = &command.keep {
        files::copy(data, &keep.join(format!("kill-{}-{kill}", command.seed)))?;
    }
    Ok(())
}

/// Lets a writer live for a while. Returns whether it began to write, and its exit status if it was not killed.
fn live(data: &Path, random: &mut Rng, kill: u64, mut hear: impl FnMut(&str)) -> Outcome<(bool, Option<ExitStatus>)> {
    let life = Life {
        dir: data.to_owned(),
        seed: random.u64(..),
        life: kill,
        writers: random.usize(1..17),
        names: 12,
        writes: u64::MAX,
        end: End::Close,
        compact: data.join("store").exists() && random.u8(..4) == 0,
        say: None,
    };
    let mut process = Command::new(std::env::current_exe()?)
        .args(life.arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = lines_of(&mut process)?;
    // Some kills come while it opens the store, most while it works.
    let patience = if kill.is_multiple_of(5) { random.u64(..60) } else { random.u64(40..400) };
    thread::park_timeout(Duration::from_millis(patience));
    let ended = process.try_wait()?;
    process.kill()?;
    process.wait()?;
    let mut opened = false;
    for line in lines {
        opened |= line.starts_with("done");
        hear(&line);
    }
    Ok((opened, ended))
}

/// Kills a process while it makes a store, and opens the result.
fn made(data: &Path, random: &mut Rng) -> Outcome<Vec<String>> {
    let life = Life {
        dir: data.to_owned(),
        seed: random.u64(..),
        life: 0,
        writers: 1,
        names: 2,
        writes: 0,
        end: End::Close,
        compact: false,
        say: Some("/dev/null".into()),
    };
    let mut process = Command::new(std::env::current_exe()?).args(life.arguments()).stdin(Stdio::null()).spawn()?;
    thread::park_timeout(Duration::from_micros(random.u64(..40_000)));
    process.kill()?;
    process.wait()?;
    Ok(examine(data, &mut Ledger::default()).faults)
}

/// Opens the store and compares everything.
fn examine(data: &Path, ledger: &mut Ledger) -> Comparison {
    let look = || -> Outcome<(Content, Vec<String>)> {
        let store = SledBackend::open(options(data))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
        runtime.block_on(async {
            let mut faults: Vec<_> = store.check().await?.iter().map(|problem| format!("check: {problem}")).collect();
            faults.extend(store.health().borrow().damaged.clone());
            let content = content(&store).await?;
            faults.extend(children(&store, &content).await?);
            Ok((content, faults))
        })
    };
    let looked = look();
    wait_until_free(data);
    match looked {
        Ok((content, faults)) => {
            let mut comparison = ledger.settle(&content);
            comparison.faults.extend(faults);
            comparison
        }
        Err(error) => Comparison { faults: vec![error.to_string()], ..Comparison::default() },
    }
}

/// Compares the owner index with the owners that resources name.
async fn children(store: &SledBackend, content: &Content) -> Outcome<Vec<String>> {
    let mut faults = Vec::new();
    let mut owners: Vec<_> = content.values().filter_map(|state| state.owner.clone()).collect();
    owners.sort();
    owners.dedup();
    for owner in owners {
        let listed = store.list_by_owner(&id(&owner.0, owner.1)).await?;
        let listed = listed.iter().map(describe).collect::<Result<Content, _>>()?;
        let wanted = content.iter().filter(|(_, state)| state.owner.as_ref() == Some(&owner));
        if !wanted.eq(&listed) {
            faults.push(format!("{}@{} does not own the resources that name it as owner", owner.0, owner.1));
        }
    }
    Ok(faults)
}
