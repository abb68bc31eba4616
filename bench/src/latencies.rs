//! How long writes take: a few clients, each with one write after another.

use std::time::{Duration, Instant};

use mortise_resource::pb;
use tokio::task::JoinSet;

use crate::{Outcome, calls::artist, servers::Client};

/// Percentiles of what some calls took, milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Latencies {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// Lets each client write artists of its own for so long.
pub(crate) async fn of_writes(writers: &[Client], length: Duration) -> Outcome<Latencies> {
    let mut tasks = JoinSet::new();
    for (number, client) in writers.iter().enumerate() {
        let mut client = client.clone();
        tasks.spawn(async move {
            let (begun, mut took) = (Instant::now(), Vec::new());
            while begun.elapsed() < length {
                let resource = artist(&format!("artist-{number}-{}", took.len() % 16));
                let sent = Instant::now();
                client.write(pb::WriteRequest { resource: Some(resource) }).await?;
                took.push(sent.elapsed().as_secs_f64() * 1e3);
            }
            Outcome::Ok(took)
        });
    }
    let mut all = Vec::new();
    while let Some(task) = tasks.join_next().await {
        all.extend(task??);
    }
    all.sort_by(f64::total_cmp);
    let at = |percent: usize| all.get(all.len() * percent / 100).copied();
    let (Some(p50), Some(p99)) = (at(50), at(99)) else { return Err("no write came back in a whole round".into()) };
    Ok(Latencies { p50, p99 })
}
