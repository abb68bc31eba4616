//! `mortise-proof soak`: a steady mixed load, reloads and a kill, while the memory, the descriptors, the threads, the
//! disk space and the latency of the server are sampled.
//!
//! # Contract
//! Each figure has a slope with its standard error, fitted to the lives of the server together, each without its first
//! half. The soak fails if a slope is above its bound with 95 % confidence. The bounds are growths over the whole
//! soak: a longer soak finds smaller slopes.
//!
//! In each minute the load writes and deletes three times the bytes by which the disk space may grow: so a steady size
//! shows that the space of deleted resources is used again without a stop.
//!
//! # Limits
//! One minute finds leaks of some hundred bytes for each call; less needs an hour (`--seconds 3600`).

mod load;
mod sample;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Args;
use mortise_proof::slope::slope;
use mortise_test_process::{Outcome, sibling};
use tokio::task::JoinSet;

use self::{
    load::Load,
    sample::{Figure, Samples},
};
use super::{history::Subjects, server::Server, world::World};

/// Pause between two samples.
const SAMPLE_PAUSE: Duration = Duration::from_millis(200);
/// Lives of the server.
const LIVES: u32 = 2;
/// Part of each life that is left out, of 1: caches fill, and the allocator reaches its size.
const WARM_UP: f64 = 0.5;

/// Options of the command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Soak {
    /// Time of the load, seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Time between two reloads of the plugin, seconds.
    #[arg(long, default_value_t = 5)]
    reload_seconds: u64,
    /// Binary to start; by default, the binary `mortise` beside this one.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// Runs the command; returns whether no figure rises.
pub(crate) async fn run(options: &Soak) -> Outcome<bool> {
    let binary = options.binary.clone().map_or_else(|| sibling("mortise"), Ok)?;
    let variables = [
        // Caches and the history are full before the first half of a life is over.
        ("MORTISE_STORE_CACHE_BYTES", "131072"),
        ("MORTISE_STORE_HISTORY_EVENTS", "500"),
        ("MORTISE_AUDIT_FILE_BYTES", "1048576"),
        ("MORTISE_AUDIT_FILES", "2"),
    ];
    let env = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut subjects = Subjects::begin(Server::prepare(&binary, tempfile::tempdir()?, env)?).await?;
    let world = Arc::new(World::new("s".to_owned(), 0, 0, subjects.life.subscribe()));
    let load = Arc::new(Load::default());
    let mut tasks = JoinSet::new();
    load::spawn(&mut tasks, &world, &load);
    let mut lives = Vec::new();
    for life in 0..LIVES {
        if life > 0 {
            subjects.kill(&world).await?;
        }
        lives.push(one_life(&mut subjects, &load, options).await?);
    }
    tasks.shutdown().await;
    report(&lives, &load, options.seconds as f64 / 60.0)
}

/// Samples the server for a time, and reloads the plugin meanwhile.
async fn one_life(subjects: &mut Subjects, load: &Load, options: &Soak) -> Outcome<Samples> {
    let (time, interval) = (Duration::from_secs(options.seconds) / LIVES, Duration::from_secs(options.reload_seconds));
    let server = subjects.server.as_mut().ok_or("no server")?;
    let (begun, mut samples, mut reloaded) = (Instant::now(), Samples::default(), Instant::now());
    load.take_latency();
    while begun.elapsed() < time {
        tokio::time::sleep(SAMPLE_PAUSE).await;
        samples.take(begun.elapsed(), server, load)?;
        if reloaded.elapsed() >= interval {
            server.reload()?;
            reloaded = Instant::now();
        }
    }
    samples.forget(time.mul_f64(WARM_UP));
    Ok(samples)
}

fn report(lives: &[Samples], load: &Load, minutes: f64) -> Outcome<bool> {
    let (calls, failures, ballast) = load.counts();
    println!("{calls} calls, {failures} without success; {ballast} MiB were written and deleted");
    println!("| figure | mean | slope, a minute | standard error | bound |\n|---|---|---|---|---|");
    let mut is_flat = true;
    for figure in Figure::ALL {
        let series: Vec<_> = lives.iter().map(|samples| samples.of(figure)).collect();
        let count = series.iter().map(Vec::len).sum::<usize>().max(1) as f64;
        let mean = series.iter().flatten().map(|(_, value)| value).sum::<f64>() / count;
        let slope = slope(&series).ok_or("too few samples for a slope; use more --seconds")?;
        let bound = figure.growth() / minutes;
        let rises = slope.at_least() > bound;
        let remark = if rises { ": it rises" } else { "" };
        println!("| {} | {mean:.2} | {:+.3} | {:.3} | {bound:.3}{remark} |", figure.name(), slope.value, slope.error);
        is_flat &= !rises;
    }
    Ok(is_flat)
}
