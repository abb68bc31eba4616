//! `mortise-proof histories`: history after history, each judged; a failure is shrunk and kept.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use mortise_proof::{
    check::{Violation, judge},
    record::{Answer, Call, Entry, History},
    shrink::shrink,
};
use mortise_test_process::{Outcome, sibling};
use tokio::sync::watch;

use super::{
    history::{self, Plans, Subjects},
    world::{Life, PATIENCE},
};

/// Violations that are printed of one history.
const MAX_PRINTED: usize = 12;

/// Options of the command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Histories {
    /// Servers of one store, with the demo plugin and without tokens; by default, the binary `mortise` beside this one
    /// is started. Calls are spread over them; none is killed, and no plugin is reloaded.
    #[arg(long, value_delimiter = ',')]
    servers: Vec<SocketAddr>,
    /// Addresses of HTTP of these servers, in their order.
    #[arg(long, value_delimiter = ',', requires = "servers")]
    http: Vec<SocketAddr>,
    /// Binary to start.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Seed of the random choices; a fresh one by default. The order of concurrent calls differs in each run.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of histories.
    #[arg(long, default_value_t = 10)]
    histories: u64,
    /// Time after which no further history begins, seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Operations of a history.
    #[arg(long, default_value_t = 10_000)]
    operations: usize,
    /// Number of clients.
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Names of each kind in each namespace.
    #[arg(long, default_value_t = 12)]
    names: usize,
    /// Command of the shell, run once in each history; it may end and start some of these servers.
    #[arg(long, value_name = "COMMAND", requires = "servers")]
    disturb: Option<String>,
    /// Kills of the server in each history.
    #[arg(long, default_value_t = 0, num_args = 0..=1, default_missing_value = "1", conflicts_with = "servers")]
    kills: usize,
    /// Ends of the server with SIGTERM in each history.
    #[arg(long, default_value_t = 0, num_args = 0..=1, default_missing_value = "1", conflicts_with = "servers")]
    stops: usize,
    /// Reloads of the plugin in each history.
    #[arg(long, default_value_t = 1)]
    reloads: usize,
    /// Backups in each history.
    #[arg(long, default_value_t = 1)]
    backups: usize,
    /// Time limit for deferred deletions, and for the last message of a watch, at the end of a history, seconds.
    #[arg(long, default_value_t = PATIENCE.as_secs())]
    patience: u64,
    /// Folder for the records of failures.
    #[arg(long, default_value = "target/proof")]
    keep: PathBuf,
}

/// Figures of one history.
struct Judged {
    history: History,
    violations: Vec<Violation>,
}

/// Runs the command; returns whether every history was clean.
pub(crate) async fn run(options: &Histories) -> Outcome<bool> {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1 << 48));
    println!("seed {seed}");
    let binary = || options.binary.clone().map_or_else(|| sibling("mortise"), Ok);
    let mut subjects = match options.servers.as_slice() {
        [] => Subjects::start(&binary()?, &[]).await?,
        addrs => {
            let life = Life { number: 1, addrs: addrs.to_vec(), http: options.http.clone() };
            Subjects { server: None, life: watch::Sender::new(life) }
        }
    };
    let begun = Instant::now();
    let limit = options.seconds.map(Duration::from_secs);
    let (mut count, mut operations, mut failure) = (0, 0, None);
    while count < options.histories && limit.is_none_or(|limit| begun.elapsed() < limit) && failure.is_none() {
        let judged = one(&mut subjects, options, seed, count).await?;
        operations += judged.history.operations().count();
        count += 1;
        failure = Some(judged).filter(|judged| !judged.violations.is_empty());
    }
    if let Some(server) = subjects.server {
        let log = server.stop().await?;
        let faults: Vec<_> =
            log.lines().filter(|line| line.contains("ERROR") || line.contains("panic")).take(10).collect();
        if !faults.is_empty() {
            println!("the server's log has errors:\n{}", faults.join("\n"));
        }
    }
    println!("{count} histories, {operations} operations, {:.1} s", begun.elapsed().as_secs_f64());
    match failure {
        None => Ok(true),
        Some(failure) => {
            report(&failure, &options.keep, seed + count - 1)?;
            Ok(false)
        }
    }
}

async fn one(subjects: &mut Subjects, options: &Histories, seed: u64, number: u64) -> Outcome<Judged> {
    let plans = Plans {
        operations: options.operations,
        clients: options.clients,
        names: options.names,
        kills: options.kills,
        stops: options.stops,
        reloads: options.reloads,
        backups: options.backups,
        patience: Duration::from_secs(options.patience),
        disturbance: options.disturb.clone(),
    };
    let begun = Instant::now();
    let (history, refusals) = history::run(subjects, &plans, seed + number, format!("h{number}x")).await?;
    let took = begun.elapsed();
    let judging = Instant::now();
    let violations = judge(&history);
    let events: usize =
        history.streams().flat_map(|stream| &stream.messages).map(|message| message.changes.len()).sum();
    let backups =
        history.operations().filter(|call| call.call == Call::Backup && call.answer != Answer::Unknown).count();
    let token_calls = history.entries.iter().filter(|entry| matches!(entry, Entry::Use(_))).count();
    println!(
        "history {number}: {} calls, {token_calls} with tokens, {backups} backups, {} watches, {events} changes \
         in {:.2} s, judged in {:.2} s: {} ({refusals})",
        history.operations().count(),
        history.streams().count(),
        took.as_secs_f64(),
        judging.elapsed().as_secs_f64(),
        if violations.is_empty() { "clean".to_owned() } else { format!("{} violations", violations.len()) }
    );
    Ok(Judged { history, violations })
}

/// Prints violations, and keeps the record and the smallest one.
fn report(judged: &Judged, keep: &Path, seed: u64) -> Outcome<()> {
    print(&judged.violations);
    std::fs::create_dir_all(keep)?;
    let whole = keep.join(format!("history-{seed}.json"));
    std::fs::write(&whole, serde_json::to_vec(&judged.history)?)?;
    println!("record: {}", whole.display());
    if let Some(first) = judged.violations.first() {
        let begun = Instant::now();
        let small = shrink(&judged.history, first);
        let path = keep.join(format!("history-{seed}-small.json"));
        std::fs::write(&path, serde_json::to_vec_pretty(&small)?)?;
        let count = |history: &History| history.entries.iter().map(size).sum::<usize>();
        println!(
            "shrunk from {} to {} calls and messages in {:.1} s: {}",
            count(&judged.history),
            count(&small),
            begun.elapsed().as_secs_f64(),
            path.display()
        );
        println!("judge it again: mortise-proof check {}", path.display());
    }
    Ok(())
}

fn size(entry: &Entry) -> usize {
    match entry {
        Entry::Stream(stream) => stream.messages.len(),
        _ => 1,
    }
}

/// Prints some violations.
fn print(violations: &[Violation]) {
    for violation in violations.iter().take(MAX_PRINTED) {
        println!("  {violation}");
    }
    if violations.len() > MAX_PRINTED {
        println!("  and {} more", violations.len() - MAX_PRINTED);
    }
}

/// Judges the record in a file; returns whether it is clean.
pub(crate) fn check(file: &Path) -> Outcome<bool> {
    let history: History = serde_json::from_slice(&std::fs::read(file)?)?;
    let violations = judge(&history);
    print(&violations);
    println!("{} calls, {} violations", history.operations().count(), violations.len());
    Ok(violations.is_empty())
}
