//! Writes of a controller that writes once in each reconcile: the resources exist before it starts, so its queue is
//! full from the beginning, and no client works beside it.

use std::time::{Duration, Instant};

use mortise_plugin_manager::controllers::ControllerManager;
use mortise_resource::types::Gvk;

use crate::{
    Outcome,
    controllers::{BenchHarness, processor_time},
    report::{line, median},
    versus::Rounds,
};

const GUEST: &str = "reconcile-status";

/// The guest's types, and the number of resources of each that are reconciled at once.
const KINDS: [(&str, usize); 3] = [("One", 1), ("Few", 16), ("Many", 64)];

/// Longest time for a round.
const ROUND_TIMEOUT: Duration = Duration::from_secs(300);

/// Interval between looks at the controller's progress.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Result of a round.
struct Round {
    writes_a_second: f64,
    /// Processor time of the whole process for each write, microseconds.
    each_us: f64,
    reconciles: u64,
}

/// Prints the writes a second and the processor time of each.
pub(crate) async fn measure(rounds: Rounds, resources: usize) -> Outcome<()> {
    for (kind, at_once) in KINDS {
        let mut measured = Vec::new();
        for _ in 0..rounds.count {
            measured.push(round(kind, resources).await?);
        }
        let middle = |of: fn(&Round) -> f64| median(measured.iter().map(of).collect());
        line(&format!(
            "controllers: {resources} resources with one write each, {at_once} at once: {:.0} writes/s, {:.0} µs of \
             processor time for a write with its {:.2} reconciles",
            middle(|round| round.writes_a_second),
            middle(|round| round.each_us),
            middle(|round| round.reconciles as f64) / resources as f64
        ))?;
    }
    Ok(())
}

/// Measures from the start of the controller's work to the last write.
async fn round(kind: &str, resources: usize) -> Outcome<Round> {
    let harness = BenchHarness::new(GUEST, &Gvk::new("reconcile_status", "v1", kind), resources).await?;
    let written = async || Ok::<_, mortise_store::StoreError>(harness.backend.stats().await?.head.sequence);
    let before = written().await?;
    let controller_manager = harness.controller_manager();
    let following = controller_manager.start()?;
    let name = kind.to_lowercase();
    let asked = Instant::now();
    let late = |what: &str| {
        if asked.elapsed() > ROUND_TIMEOUT { Err(format!("{what} within {ROUND_TIMEOUT:?}")) } else { Ok(()) }
    };
    while !runs(&controller_manager, &name) {
        late("the controller did not begin to work")?;
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    let (begun, used, already) = (Instant::now(), processor_time()?, written().await? - before);
    let wanted = resources as u64;
    while written().await? - before < wanted {
        late("the controller did not come to the last resource")?;
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let (took, writes) = (begun.elapsed().as_secs_f64(), wanted.saturating_sub(already));
    let used = processor_time()?.saturating_sub(used);
    let reconciles = report(&controller_manager, &name).map_or(0, |report| report.reconciles);
    following.abort();
    controller_manager.stop().await;
    Ok(Round { writes_a_second: writes as f64 / took, each_us: used.as_secs_f64() * 1e6 / writes as f64, reconciles })
}

fn report(manager: &ControllerManager, name: &str) -> Option<mortise_resource::data::ControllerReport> {
    manager.reports(GUEST).into_iter().find(|report| report.name == format!("{GUEST}/{name}"))
}

fn runs(manager: &ControllerManager, name: &str) -> bool {
    report(manager, name).is_some_and(|report| report.state == "Running")
}
