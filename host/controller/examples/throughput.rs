//! Speed of the reconcile loop alone: a reconciler that does nothing, 100,000 resources, in memory.
//!
//! `cargo run --release -p mortise-controller --example throughput [resources] [parallel]`

mod kit;

use std::{
    process::ExitCode,
    sync::{Arc, atomic::AtomicU64},
    time::Instant,
};

use kit::{ChannelSource, CountingReconciler, artist, artists, report, resident};
use mortise_controller::{AlwaysLeased, Controllers, Definition, Event};
use mortise_resource::EncodingError;
use parking_lot::Mutex;
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<ExitCode, EncodingError> {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse::<usize>().ok());
    let count = arguments.next().unwrap_or(100_000);
    let parallel = arguments.next().unwrap_or(1);
    let resources = (0..count).map(|n| artist(n, 1)).collect::<Result<Vec<_>, _>>()?;
    let reconciler = Arc::new(CountingReconciler(AtomicU64::new(0)));
    let (feed, events) = mpsc::channel(4096);
    let controllers = Controllers::new(Arc::new(ChannelSource(Mutex::new(Some(events)))), Arc::new(AlwaysLeased));
    let bare = resident();
    report(&format!("{count} resources, {parallel} in parallel; they take {bare:.1} MiB"));
    let definition = Definition::new("idle", artists(), reconciler.clone()).parallel(parallel);
    if let Err(error) = controllers.register(definition) {
        report(&error.to_string());
        return Ok(ExitCode::FAILURE);
    }
    let begun = Instant::now();
    for resource in &resources {
        let _ = feed.send(Event::Upsert(resource.clone())).await;
    }
    let primed = begun.elapsed();
    let begun = Instant::now();
    let _ = feed.send(Event::EndOfSnapshot).await;
    reconciler.reach(count).await;
    rate("snapshot", count, begun);
    let scheduled = controllers.status("idle").map_or(0, |status| status.scheduled);
    let each = (resident() - bare) * 1024.0 * 1024.0 / count as f64;
    report(&format!(
        "primed in {primed:.1?}; {scheduled} resyncs scheduled; {:.1} MiB more, {each:.0} bytes a resource for cache, queue and timer",
        resident() - bare
    ));
    let changed = (0..count).map(|n| artist(n, 2)).collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    for resource in changed {
        let _ = feed.send(Event::Upsert(resource)).await;
    }
    reconciler.reach(2 * count).await;
    rate("changes, each through watch, cache and queue", count, begun);
    controllers.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

fn rate(what: &str, count: usize, begun: Instant) {
    let took = begun.elapsed();
    report(&format!("{what}: {count} reconciles in {took:.1?}, {:.0} a second", count as f64 / took.as_secs_f64()));
}
