//! Measures Mortise, against something else in the same run where there is a counterpart: machines differ and are
//! noisy, ratios less so. docs/performance.md has the results.
//!
//! Each comparison runs both sides alternately, round by round, and reports the median of each side and of the ratio of
//! the pairs. Servers are child processes of this one, of the binary beside it, so build `mortise` first. Clients are
//! in this process. All use loopback.
//!
//! ```text
//! cargo build --release -p mortise && cargo run --release -p mortise-bench -- all
//! ```

mod apply;
mod bare_wasmtime;
mod calls;
mod catalog;
mod cluster;
mod controller_writes;
mod controllers;
mod crowd;
mod destination;
mod disk;
mod etcd;
mod fanout;
mod hooks;
mod hostile;
mod instructions;
mod latencies;
mod noop;
mod outcome;
mod plot;
mod queries;
mod reload;
mod report;
mod scale;
mod servers;
mod sync;
mod tokens;
mod versus;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand};

pub(crate) use outcome::Outcome;

#[derive(Parser)]
#[command(about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Rounds of each comparison.
    #[arg(long, default_value_t = 7, global = true)]
    rounds: usize,
    /// Length of one round of one side, milliseconds.
    #[arg(long, default_value_t = 1500, global = true)]
    round_ms: u64,
    /// A file that gets every figure as JSON, with its unit, the command and the machine.
    #[arg(long, global = true)]
    json: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// All measurements below except `against` and `instructions`.
    All,
    /// Read and Write with all hooks against a server that does nothing, 1 and 64 clients, 512 bytes of data; Write
    /// also against a server that only brings the message to the disk.
    Calls {
        /// Writes only.
        #[arg(long)]
        writes: bool,
    },
    /// List of 1,000 and of 100,000 against a server that answers the same bytes.
    Lists,
    /// Every change to 1, 100 and 1,000 watchers.
    Fanout {
        /// Another `mortise` to measure as well.
        #[arg(long)]
        other: Option<PathBuf>,
    },
    /// Cost of many lists at once to writes, and the server's memory.
    Crowd {
        /// Lists that are under way, or wait their turn, at once.
        #[arg(long, default_value_t = 2_000)]
        lists: usize,
        /// Resources of each list.
        #[arg(long, default_value_t = 100_000)]
        resources: usize,
    },
    /// `mortise apply` of one file against clients that write the same.
    Apply {
        /// Number of resources.
        #[arg(long, default_value_t = 10_000)]
        resources: usize,
    },
    /// Read and Write with a token against the same calls without one.
    Tokens,
    /// Read and Write against those of another build's server.
    Against {
        /// The other `mortise`.
        binary: PathBuf,
    },
    /// Durable writes against etcd, if it is on PATH, 64 and 1 clients.
    Etcd,
    /// Servers over one etcd, if it is on PATH: writes beside etcd's own transactions, the lag between servers, the cost
    /// of reads, and a server that starts without its copy.
    Cluster {
        /// Resources of the server that starts without its copy.
        #[arg(long, default_value_t = 100_000)]
        resources: usize,
    },
    /// The hooks of one write by their parts, in process, beside bare wasmtime and native code.
    Hooks,
    /// Cost of each hostile guest to the writes of another type.
    Hostile,
    /// The figures that have targets, beside their peers: fan-out of single writes, lists, calls, writes beside etcd's,
    /// and an idle server.
    Targets {
        /// Another `mortise` to measure as well.
        #[arg(long)]
        other: Option<PathBuf>,
    },
    /// Costs of an idle server, with controllers and watches.
    Idle {
        /// Another `mortise` to measure instead.
        #[arg(long)]
        other: Option<PathBuf>,
    },
    /// Start-up time, memory, and percentiles of Read, Write and pages with a million
    /// resources.
    Scale {
        /// Number of resources.
        #[arg(long, default_value_t = 1_000_000)]
        resources: usize,
    },
    /// Time from saving a plugin to serving it; then reloads that alternate two versions under 32 clients.
    Reload {
        /// Number of reloads under load.
        #[arg(long, default_value_t = 1_000)]
        reloads: usize,
    },
    /// Reconciles a second of a reconciler in a plugin, and of one in Rust; cost of idle controllers.
    Controllers {
        /// Number of resources.
        #[arg(long, default_value_t = 100_000)]
        resources: usize,
    },
    /// Writes a second of a controller in a plugin that writes once in each reconcile, with a queue filled beforehand.
    ControllerWrites {
        /// Number of resources.
        #[arg(long, default_value_t = 20_000)]
        resources: usize,
    },
    /// Endpoints of services after a change of every workload.
    Catalog {
        /// Number of services.
        #[arg(long, default_value_t = 1_000)]
        services: usize,
    },
    /// The destination API with many streams of one service, half of which take nothing.
    Destination {
        /// Number of streams.
        #[arg(long, default_value_t = 1_000)]
        streams: usize,
        /// Endpoints of the service.
        #[arg(long, default_value_t = 10_000)]
        endpoints: u32,
        /// Number of changes.
        #[arg(long, default_value_t = 50)]
        changes: u32,
    },
    /// Searches among many resources by a label, by a field with an index and without one, and the cost of filtered
    /// watches to writes.
    Queries {
        /// Number of resources.
        #[arg(long, default_value_t = 1_000_000)]
        resources: usize,
        /// Number of watches.
        #[arg(long, default_value_t = 1_000)]
        watchers: usize,
    },
    /// Replicas between two regions: a snapshot, changes as they happen, single changes, and changes during an absence.
    Sync {
        /// Number of resources.
        #[arg(long, default_value_t = 100_000)]
        resources: usize,
    },
    /// A picture of the reports of --json.
    Plot {
        /// The reports.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The picture, SVG.
        #[arg(long)]
        out: PathBuf,
    },
    /// Instructions of Read, Write and List, beside the stored figures; fails if a count rose by more than 5 %. Needs
    /// valgrind.
    Instructions {
        /// Replace the stored figures of this profile.
        #[arg(long)]
        update: bool,
    },
    /// The work whose instructions are counted; `instructions` starts it.
    #[command(hide = true)]
    Counted {
        #[arg(long)]
        work: instructions::Work,
        #[arg(long)]
        count: usize,
        /// The plugin whose hooks are called.
        #[arg(long)]
        guest: PathBuf,
        /// Directory of its compiled code.
        #[arg(long)]
        code: PathBuf,
    },
    /// The server that does nothing; other commands start it.
    #[command(hide = true)]
    Noop {
        /// Resources in its list.
        #[arg(long, default_value_t = 1_000)]
        list: usize,
        /// A file that gets each write, durably, before its answer.
        #[arg(long)]
        durable: Option<PathBuf>,
    },
}

fn main() -> Outcome<()> {
    let cli = Cli::parse();
    let json = cli.json.as_deref().map(report::JsonFile::create).transpose()?;
    let mut runtime = match cli.command {
        // One thread, so that counts repeat.
        Command::Counted { .. } => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.enable_all().build()?;
    let rounds = versus::Rounds { count: cli.rounds.max(1), length: Duration::from_millis(cli.round_ms) };
    let outcome = runtime.block_on(async {
        match cli.command {
            Command::Noop { list, durable } => {
                noop::serve(SocketAddr::from(([127, 0, 0, 1], 0)), list, durable.as_deref()).await
            }
            Command::Plot { files, out } => plot::draw(&files, &out),
            Command::Instructions { update } => instructions::check(update).await,
            Command::Counted { work, count, guest, code } => instructions::run(work, count, &guest, &code).await,
            Command::Calls { writes } => calls::calls(rounds, writes).await,
            Command::Lists => calls::lists(rounds).await,
            Command::Fanout { other } => fanout::measure(rounds, other.as_deref()).await,
            Command::Crowd { lists, resources } => crowd::measure(rounds, lists, resources).await,
            Command::Apply { resources } => apply::measure(rounds.count, resources).await,
            Command::Tokens => tokens::measure(rounds).await,
            Command::Against { binary } => calls::against(rounds, &binary).await,
            Command::Etcd => etcd::run(rounds).await,
            Command::Cluster { resources } => cluster::measure(rounds, resources).await,
            Command::Targets { other } => {
                fanout::single_writes(rounds, other.as_deref()).await?;
                calls::lists(rounds).await?;
                calls::calls(rounds, false).await?;
                etcd::run(rounds).await?;
                if let Some(other) = &other {
                    calls::against(rounds, other).await?;
                    scale::idle(Some(other)).await?;
                }
                scale::idle(None).await
            }
            Command::Idle { other } => scale::idle(other.as_deref()).await,
            Command::Hooks => hooks::measure().await,
            Command::Scale { resources } => scale::measure(rounds, resources).await,
            Command::Hostile => hostile::measure(rounds).await,
            Command::Reload { reloads } => reload::measure(reloads).await,
            Command::Controllers { resources } => controllers::measure(rounds, resources).await,
            Command::ControllerWrites { resources } => controller_writes::measure(rounds, resources).await,
            Command::Catalog { services } => catalog::measure(services).await,
            Command::Destination { streams, endpoints, changes } => {
                destination::measure(streams, endpoints, changes).await
            }
            Command::Queries { resources, watchers } => {
                queries::watches(rounds, watchers).await?;
                queries::searches(resources).await
            }
            Command::Sync { resources } => sync::measure(resources).await,
            Command::All => {
                hooks::measure().await?;
                reload::measure(1_000).await?;
                calls::calls(rounds, false).await?;
                calls::lists(rounds).await?;
                fanout::measure(rounds, None).await?;
                crowd::measure(rounds, 2_000, 100_000).await?;
                apply::measure(rounds.count, 10_000).await?;
                tokens::measure(rounds).await?;
                etcd::run(rounds).await?;
                cluster::measure(rounds, 100_000).await?;
                hostile::measure(rounds).await?;
                controllers::measure(rounds, 100_000).await?;
                controller_writes::measure(rounds, 20_000).await?;
                catalog::measure(1_000).await?;
                destination::measure(1_000, 10_000, 50).await?;
                queries::watches(rounds, 1_000).await?;
                queries::searches(1_000_000).await?;
                sync::measure(100_000).await?;
                scale::measure(rounds, 1_000_000).await
            }
        }
    });
    // Figures measured before a fault are kept.
    let written = json.map_or(Ok(()), |file| file.write(cli.rounds, cli.round_ms));
    outcome.and(written)
}
