//! Start-up time and idle memory, empty and with a million resources; and Read with a million against Read with 1,000.

use std::{path::Path, sync::Arc, time::Duration};

use mortise_resource::pb;
use mortise_store::{Backend as _, Batch, Mutation, Options, SledBackend};

use crate::{
    Outcome,
    calls::{Reads, artist},
    report::{line, median},
    servers::Server,
    versus::{Rounds, compare, rate},
};

/// Resources of one commit while a store is filled.
const BATCH: usize = 1_000;

/// Starts of which the median is reported.
const STARTS: usize = 5;

/// Time that 64 clients read before the comparison.
const WARM_UP: Duration = Duration::from_secs(20);

/// Fills a store directly, without a server.
async fn fill(data: &Path, count: usize) -> Outcome<()> {
    std::fs::create_dir_all(data)?;
    let path = data.join("data").join("store");
    std::fs::create_dir_all(data.join("data"))?;
    let store = tokio::task::spawn_blocking(move || SledBackend::open(Options::new(path))).await??;
    let mut at = 0;
    while at < count {
        let next = (at + BATCH).min(count);
        let put = |i: usize| {
            let mut resource = artist(&format!("artist-{i:07}"));
            resource.generation = ulid::Ulid::generate().to_string();
            if let Some(id) = &mut resource.id {
                id.uid = ulid::Ulid::generate().to_string();
                id.tenancy = Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() });
            }
            Mutation::Put(Box::new(resource))
        };
        store.commit(Batch::of_all((at..next).map(put).collect())).await?;
        at = next;
    }
    tokio::task::spawn_blocking(move || store.close()).await?;
    Ok(())
}

/// Starts a server several times; prints the median time to ready and the memory a moment after the last start.
async fn starts(what: &str, data: &Path) -> Outcome<Server> {
    let cold = Server::mortise(data, &[]).await?;
    line(&format!("{what}: ready after {:.0} ms, first start", cold.ready_after.as_secs_f64() * 1e3))?;
    cold.stop().await?;
    let mut took = Vec::new();
    for _ in 0..STARTS {
        let server = Server::mortise(data, &[]).await?;
        took.push(server.ready_after.as_secs_f64() * 1e3);
        server.stop().await?;
    }
    let server = Server::mortise(data, &[]).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    line(&format!(
        "{what}: ready after {:.0} ms with a warm compile cache (median of {STARTS}), idle memory {:.0} MiB",
        median(took),
        server.resident_mib()?
    ))?;
    Ok(server)
}

pub(crate) async fn measure(rounds: Rounds, resources: usize) -> Outcome<()> {
    let (small_dir, large_dir) = (tempfile::tempdir()?, tempfile::tempdir()?);
    fill(small_dir.path(), 1_000).await?;
    let small = starts("1,000 resources", small_dir.path()).await?;
    fill(large_dir.path(), resources).await?;
    let large = starts(&format!("{resources} resources"), large_dir.path()).await?;
    // The comparison is of warm servers; a cold one reads its pages from the file first.
    let warming = Arc::new(Reads { clients: large.clients(64).await?, of: resources, resource: artist });
    rate(&warming, 64, WARM_UP).await?;
    for clients in [1, 64] {
        let ours = Arc::new(Reads { clients: large.clients(clients).await?, of: resources, resource: artist });
        let theirs = Arc::new(Reads { clients: small.clients(clients).await?, of: 1_000, resource: artist });
        let title = format!("Read among {resources}");
        compare(&title, ("many", ours), ("1,000", theirs), clients, rounds).await?;
    }
    line(&format!("{resources} resources: memory after the reads {:.0} MiB", large.resident_mib()?))?;
    large.stop().await?;
    small.stop().await
}
