//! Cost of idle controllers: 100 of them, with 10,000 resources each.
//!
//! `cargo run --release -p mortise-controller --example idle [controllers] [resources] [seconds]`

mod kit;

use std::{
    process::ExitCode,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use kit::{CountingReconciler, SnapshotSource, artist, artists, cpu, report, resident};
use mortise_controller::{AlwaysLeased, Controllers, Definition};
use mortise_resource::EncodingError;

#[tokio::main]
async fn main() -> Result<ExitCode, EncodingError> {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse::<usize>().ok());
    let number = arguments.next().unwrap_or(100);
    let count = arguments.next().unwrap_or(10_000);
    let seconds = arguments.next().unwrap_or(20);
    let resources = (0..count).map(|n| artist(n, 1)).collect::<Result<Vec<_>, _>>()?;
    let bare = resident();
    let reconciler = Arc::new(CountingReconciler(AtomicU64::new(0)));
    let controllers = Controllers::new(Arc::new(SnapshotSource(resources.into())), Arc::new(AlwaysLeased));
    for n in 0..number {
        if let Err(error) = controllers.register(Definition::new(format!("idle-{n}"), artists(), reconciler.clone())) {
            report(&error.to_string());
            return Ok(ExitCode::FAILURE);
        }
    }
    reconciler.reach(number * count).await;
    let before = cpu();
    report(&format!(
        "{number} controllers, {count} resources each: started with {before:.2} s of processor time, {:.1} MiB more than the resources",
        resident() - bare
    ));
    tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
    let used = cpu() - before;
    report(&format!(
        "idle for {seconds} s: {used:.2} s of processor time, {:.2} % of a core",
        used / seconds as f64 * 100.0
    ));
    controllers.shutdown().await;
    Ok(ExitCode::SUCCESS)
}
