//! `mortise-proof planted`: for each planted fault, runs histories against a server that has it until one is not clean.
//!
//! The server is a debug build with the feature `planted-faults`, and the variable `MORTISE_PLANTED_FAULT` names the
//! fault. The table has the number of histories and calls that each fault took, and the rule that found it.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use mortise_proof::check::judge;
use mortise_test_process::{Outcome, etcd::Etcd, proxy::Proxy};
use tokio::{sync::watch, task::JoinHandle};

use super::{
    history::{self, Plans, Subjects},
    server::Server,
    world::{Life, PATIENCE},
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

/// Faults of servers over etcd.
const ETCD_FAULTS: [&str; 3] = ["FollowerSkips", "BarrierSkipped", "GuessedOutcome"];
/// Name of the runs without a fault.
const NONE: &str = "none";
/// Variable that names the fault.
const VARIABLE: &str = "MORTISE_PLANTED_FAULT";
/// Interval between two lost answers of etcd.
const LOSS_INTERVAL: Duration = Duration::from_millis(200);

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
    for (name, disturbances) in [(NONE, (1, 1, 1))].into_iter().chain(FAULTS).filter(|(name, _)| chosen(name)) {
        let mut subjects = Subjects::start(&options.binary, &[(VARIABLE, name)]).await?;
        all_found &= look(options, &mut subjects, name, disturbances).await?;
        if let Some(server) = subjects.server {
            server.stop().await?;
        }
    }
    for name in [NONE].into_iter().chain(ETCD_FAULTS).filter(|name| chosen(name)) {
        let Some(shared) = Shared::start(&options.binary, name).await? else {
            println!("SKIPPED: no etcd: the faults of servers that share their content were not looked for");
            break;
        };
        let life = Life { number: 1, addrs: shared.addrs.clone(), http: shared.http.clone() };
        let mut subjects = Subjects { server: None, life: watch::Sender::new(life) };
        all_found &= look(options, &mut subjects, name, QUIET).await?;
        shared.stop().await?;
    }
    Ok(all_found)
}

/// Runs histories until one is not clean, and prints a row; returns whether the outcome is that of the fault.
async fn look(
    options: &Planted,
    subjects: &mut Subjects,
    name: &str,
    (kills, stops, reloads): Disturbances,
) -> Outcome<bool> {
    let begun = Instant::now();
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
    let most = if name == NONE { 3 } else { options.histories };
    while histories < most && found.is_none() {
        let seed = options.seed + histories;
        let (history, _) = history::run(subjects, &plans, seed, format!("h{histories}x")).await?;
        histories += 1;
        calls += history.operations().count();
        found = judge(&history).into_iter().next();
    }
    let rule = found.as_ref().map_or("-".to_owned(), |violation| violation.rule.clone());
    let engine = if subjects.server.is_some() { "" } else { " (two servers over etcd)" };
    println!("| {name}{engine} | {histories} | {calls} | {rule} |");
    if let Some(violation) = &found {
        eprintln!("{name}, {:.1} s: {violation}", begun.elapsed().as_secs_f64());
    }
    Ok(found.is_some() != (name == NONE))
}

/// Two servers over one etcd, some of whose answers are lost.
struct Shared {
    servers: [Server; 2],
    addrs: Vec<SocketAddr>,
    http: Vec<SocketAddr>,
    losses: JoinHandle<()>,
    _etcd: Etcd,
}

impl Shared {
    /// Starts the servers with a fault; `None` without the program of etcd.
    async fn start(binary: &Path, fault: &str) -> Outcome<Option<Self>> {
        let Some(etcd) = Etcd::start()? else { return Ok(None) };
        let proxy = Proxy::start(&etcd.endpoint).await?;
        let env = [
            (VARIABLE, fault),
            ("MORTISE_STORE_ENGINE", "etcd"),
            ("MORTISE_STORE_ETCD_ENDPOINTS", proxy.endpoint.as_str()),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let prepare = || Server::prepare(binary, tempfile::tempdir()?, env.to_vec());
        let mut servers = [prepare()?, prepare()?];
        let (mut addrs, mut http) = (Vec::new(), Vec::new());
        for server in &mut servers {
            addrs.push(server.restart().await?);
            http.extend(server.process()?.http);
        }
        let losses = tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOSS_INTERVAL).await;
                proxy.lose_next();
            }
        });
        Ok(Some(Self { servers, addrs, http, losses, _etcd: etcd }))
    }

    async fn stop(self) -> Outcome<()> {
        self.losses.abort();
        for server in self.servers {
            server.stop().await?;
        }
        Ok(())
    }
}
