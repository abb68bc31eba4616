//! Measures the store on this machine: `cargo run --release -p mortise-store --example figures -- DIR [RESOURCES]`.
//!
//! DIR should be on the disk to measure. If it does not exist, the example fills it with RESOURCES (default 100,000)
//! and keeps it; a second run measures a store that is opened cold.

#![allow(clippy::print_stdout, clippy::expect_used, reason = "a tool for developers that prints its results")]

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_resource::pb;
use mortise_store::{Backend, Batch, Consistency, Mutation, Options, Query, SledBackend, StoreError, TypeKey};

/// Makes a resource of about 600 bytes.
fn resource(partition: &str, name: &str) -> pb::Resource {
    let mut resource = pb::Resource {
        id: Some(pb::Id {
            uid: format!("{:026}", fastrand::u64(..)),
            name: name.into(),
            r#type: Some(pb::Type { group: "bench".into(), group_version: "v1".into(), kind: "Thing".into() }),
            tenancy: Some(pb::Tenancy { partition: partition.into(), namespace: "default".into() }),
        }),
        generation: format!("{:026}", fastrand::u64(..)),
        ..pb::Resource::default()
    };
    resource.metadata.insert("text".into(), "x".repeat(440));
    resource
}

fn query(partition: &str, prefix: &str) -> Query {
    Query {
        type_key: TypeKey { group: "bench".into(), kind: "Thing".into() },
        tenancy: pb::Tenancy { partition: partition.into(), namespace: "default".into() },
        name_prefix: prefix.into(),
    }
}

/// Reads a line of /proc/self/status, in MiB.
fn memory(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find(|line| line.starts_with(what)).and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

async fn writes(store: &Arc<SledBackend>, writers: usize, time: Duration) -> Result<(), StoreError> {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut stored = store.write_cas(resource("writers", &format!("w-{:016x}", fastrand::u64(..)))).await?;
                let (mut count, mut slowest) = (0_u64, Duration::ZERO);
                while begun.elapsed() < time {
                    let begun = Instant::now();
                    stored = store.write_cas(stored).await?;
                    slowest = slowest.max(begun.elapsed());
                    count += 1;
                }
                Ok::<_, StoreError>((count, slowest))
            })
        })
        .collect();
    let (mut total, mut slowest) = (0, Duration::ZERO);
    for task in tasks {
        let (count, slow) = task.await.expect("no panic")?;
        total += count;
        slowest = slowest.max(slow);
    }
    println!("writes, {writers} writers: {:.0}/s, slowest {slowest:?}", total as f64 / begun.elapsed().as_secs_f64());
    Ok(())
}

async fn fill(store: &SledBackend, resources: u64) -> Result<(), StoreError> {
    let begun = Instant::now();
    for from in (0..resources).step_by(1000) {
        let put = |n: u64| Mutation::Put(Box::new(resource(&format!("p{}", n % 10), &format!("r-{n:08}"))));
        let mutations = (from..resources.min(from + 1000)).map(put).collect();
        store.commit(Batch::new(mutations)).await?;
    }
    println!("filled with {resources} in batches of 1,000: {:?}", begun.elapsed());
    Ok(())
}

async fn reads(store: &SledBackend, resources: u64) -> Result<(), StoreError> {
    for (what, range) in [("hot, of 1,000", 1000), ("cold, of all", resources)] {
        let ids: Vec<_> = (0..20_000)
            .filter_map(|_| {
                let n = fastrand::u64(..range.min(resources));
                let mut id = resource(&format!("p{}", n % 10), &format!("r-{n:08}")).id?;
                id.uid.clear();
                Some(id)
            })
            .collect();
        for id in &ids {
            store.read(Consistency::Eventual, id).await?;
        }
        let begun = Instant::now();
        for id in &ids {
            store.read(Consistency::Eventual, id).await?;
        }
        println!("read, {what}: {} ns", begun.elapsed().as_nanos() / ids.len() as u128);
    }
    Ok(())
}

async fn lists(store: &SledBackend) -> Result<(), StoreError> {
    for (what, query) in [
        ("exact tenancy, prefix of 10", query("p0", "r-0000001")),
        ("prefix of 1,000 in any partition", query("*", "r-00001")),
        ("exact tenancy", query("p0", "")),
        ("all", query("*", "")),
    ] {
        for temperature in ["cold", "warm"] {
            let begun = Instant::now();
            let count = store.list(Consistency::Eventual, &query).await?.len();
            println!("list, {what}, {temperature}: {count} in {:?}", begun.elapsed());
        }
    }
    Ok(())
}

fn disk(path: &Path) -> u64 {
    std::fs::metadata(path.join("store/db")).map_or(0, |meta| meta.len()) >> 20
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), StoreError> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("a directory that does not exist");
    let resources = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let fresh = !Path::new(&path).exists();
    println!("memory before: {} MiB", memory("VmRSS"));
    let begun = Instant::now();
    let store = Arc::new(SledBackend::open(Options::new(&path))?);
    println!("opened in {:?}, memory {} MiB", begun.elapsed(), memory("VmRSS"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("idle: memory {} MiB", memory("VmRSS"));
    if fresh {
        for writers in [1, 8, 64] {
            writes(&store, writers, Duration::from_secs(4)).await?;
        }
        fill(&store, resources).await?;
        println!("memory {} MiB, file {} MiB", memory("VmRSS"), disk(Path::new(&path)));
    }
    reads(&store, resources).await?;
    println!("memory {} MiB", memory("VmRSS"));
    lists(&store).await?;
    println!("memory {} MiB", memory("VmRSS"));
    writes(&store, 64, Duration::from_secs(4)).await?;
    println!("memory {} MiB, most {} MiB, file {} MiB", memory("VmRSS"), memory("VmHWM"), disk(Path::new(&path)));
    let begun = Instant::now();
    println!("check: {} problems in {:?}", store.check().await?.len(), begun.elapsed());
    drop(store);
    let begun = Instant::now();
    drop(SledBackend::open(Options::new(&path))?);
    println!("opened again and closed in {:?}", begun.elapsed());
    Ok(())
}
