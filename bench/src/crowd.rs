//! Many lists at once: their cost to writes, and the server's memory. Percentiles of a few clients' writes while each
//! of the lists is under way or waits its turn, against the same without lists, alternately.
//!
//! Clients take bytes as fast as they can. Listing clients do so on threads of low priority: receiving and decoding a
//! list costs them more than it costs the server, and elsewhere they have processors of their own. At the end of a
//! round the lists are cancelled, on the server, too.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mortise_plugin_host::LowPriorityThreads;
use mortise_resource::{pb, types::Gvk};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    Outcome,
    calls::fill,
    latencies::of_writes,
    report::{Line, Unit, median},
    servers::{Client, Server},
    versus::Rounds,
};

/// Number of clients that write.
const WRITERS: usize = 4;
/// Lists on one connection, well below the server's limit of streams.
const ON_ONE_CONNECTION: usize = 50;

/// Interval between two readings of the server's memory.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// Pause after a round, in which the server's memory settles.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// Prints the cost of `lists` lists of `resources` resources.
pub(crate) async fn measure(rounds: Rounds, lists: usize, resources: usize) -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let server = Arc::new(Server::mortise(dir.path(), &[]).await?);
    fill(&server, resources).await?;
    let (writers, threads) = (server.clients(WRITERS).await?, Arc::new(LowPriorityThreads::default()));
    let connecting = server.clone();
    let listers = threads.run(async move { connecting.clients(lists.div_ceil(ON_ONE_CONNECTION)).await }).await;
    let listers = listers.ok_or("connecting panicked")??;
    of_writes(&writers, rounds.length / 4).await?;
    let before = server.resident_mib()?;
    let peak = Arc::new(AtomicU64::new(0));
    let looking = tokio::spawn({
        let (server, peak) = (server.clone(), peak.clone());
        async move {
            while let Ok(mib) = server.resident_mib() {
                peak.fetch_max(mib as u64, Ordering::Relaxed);
                sleep(SAMPLE_INTERVAL).await;
            }
        }
    });
    let (mut alone, mut beside, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let counts = Arc::new(Counts::default());
    for _ in 0..rounds.count {
        let quiet = of_writes(&writers, rounds.length).await?;
        let mut crowd = crowd(&threads, &listers, lists, &counts);
        let loud = of_writes(&writers, rounds.length).await?;
        crowd.shutdown().await;
        sleep(SETTLE_TIME).await;
        alone.push(quiet);
        beside.push(loud);
        ratios.push(loud.p99 / quiet.p99);
    }
    looking.abort();
    // The task holds the server.
    let _ = looking.await;
    let p50 = |rounds: &[crate::latencies::Latencies]| median(rounds.iter().map(|one| one.p50).collect());
    let p99 = |rounds: &[crate::latencies::Latencies]| median(rounds.iter().map(|one| one.p99).collect());
    Line::of(format!("Write beside {lists} lists of {resources}"))
        .clients(WRITERS)
        .figure("p50 alone", p50(&alone), Unit::Milliseconds)
        .figure("p50 beside them", p50(&beside), Unit::Milliseconds)
        .figure("p99 alone", p99(&alone), Unit::Milliseconds)
        .figure("p99 beside them", p99(&beside), Unit::Milliseconds)
        .figure("p99 beside them over alone", median(ratios), Unit::Ratio)
        .figure("whole lists", counts.whole.load(Ordering::Relaxed) as f64, Unit::Count)
        .figure("refused lists", counts.refused.load(Ordering::Relaxed) as f64, Unit::Count)
        .figure("memory before", before, Unit::Mebibytes)
        .figure("memory at most", peak.load(Ordering::Relaxed) as f64, Unit::Mebibytes)
        .figure("memory after", server.resident_mib()?, Unit::Mebibytes)
        .print()?;
    Arc::try_unwrap(server).map_err(|_| "the server is still looked at")?.stop().await
}

/// Outcomes of lists.
#[derive(Default)]
struct Counts {
    whole: AtomicU64,
    refused: AtomicU64,
}

/// Runs `lists` lists at once; each starts again when it has ended. Dropping the set cancels them.
fn crowd(threads: &Arc<LowPriorityThreads>, clients: &[Client], lists: usize, counts: &Arc<Counts>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for client in clients.iter().cycle().take(lists) {
        let (mut client, counts, threads) = (client.clone(), counts.clone(), threads.clone());
        let listing = async move {
            loop {
                let answer = client
                    .list(pb::ListRequest {
                        r#type: Some(Gvk::new("demo", "v2", "Artist").to_pb()),
                        tenancy: Some(pb::Tenancy::default()),
                        name_prefix: String::new(),
                    })
                    .await;
                let count = if answer.is_ok() { &counts.whole } else { &counts.refused };
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        tasks.spawn(async move {
            threads.run(listing).await;
        });
    }
    tasks
}
