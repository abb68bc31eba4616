//! Reconciles: a reconciler in a plugin that does nothing, against one in Rust that does nothing in the same loop; then
//! the cost of idle controllers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use mortise_controller::{
    AlwaysLeased, Context, Controllers, Definition, Outcome as Reconciled, ReconcileError, Reconciler, Request,
};
use mortise_plugin_host::{Limits, Plugin, PluginSettings, Sandbox};
use mortise_plugin_manager::controllers::{ControllerManager, Quota, ServiceSource};
use mortise_resource::{pb, types::Gvk};
use mortise_service::registry::Registry;
use mortise_service::{Options, ResourceService};
use mortise_store::{Backend, Batch, Mutation, SledBackend};
use mortise_test_guests::{Thing, component};
use prost::Message as _;
use ulid::Ulid;

use crate::{
    Outcome,
    report::{line, median},
    servers::resident_mib_of,
    versus::Rounds,
};

const GUEST: &str = "reconcile-noop";
const GROUP: &str = "reconcile_noop";

/// Resources of one commit while the store is filled.
const BATCH: usize = 500;

/// Number of idle controllers, and of their resources.
const IDLE_CONTROLLERS: usize = 100;
const IDLE_RESOURCES: usize = 10_000;
/// Time for which they are measured.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// Does nothing.
struct NoopReconciler;

#[async_trait]
impl Reconciler for NoopReconciler {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Reconciled, ReconcileError> {
        Ok(Reconciled::Done)
    }
}

/// A store with the guest's type registered.
pub(crate) struct BenchHarness {
    pub(crate) backend: Arc<dyn Backend>,
    service: ResourceService,
    registry: Arc<ArcSwap<Registry>>,
    plugin: Arc<Plugin>,
    _dir: tempfile::TempDir,
}

impl BenchHarness {
    /// Makes a store with this number of resources of a type of the guest.
    pub(crate) async fn new(guest: &str, of: &Gvk, resources: usize) -> Outcome<Self> {
        let dir = tempfile::tempdir()?;
        let sandbox = Sandbox::new(&Limits::default(), dir.path().join("cache"))?;
        let bytes = std::fs::read(component(guest))?;
        let plugin = Plugin::load(&sandbox, guest, &bytes, &PluginSettings::default()).await?;
        let registry = Registry::builtin()?.with(&plugin)?;
        let registry = Arc::new(ArcSwap::from_pointee(registry));
        let backend: Arc<dyn Backend> =
            Arc::new(SledBackend::open(mortise_store::Options::new(dir.path().join("store")))?);
        for first in (0..resources).step_by(BATCH) {
            let last = resources.min(first + BATCH);
            let mutations = (first..last).map(|n| Mutation::Put(Box::new(thing(of, n)))).collect();
            backend.commit(Batch::new(mutations)).await?;
        }
        let service = ResourceService::new(backend.clone(), registry.clone(), Options::default());
        Ok(Self { backend, service, registry, plugin, _dir: dir })
    }

    /// The controllers of the guest, not yet started.
    pub(crate) fn controller_manager(&self) -> ControllerManager {
        let (service, backend) = (self.service.clone(), self.backend.clone());
        ControllerManager::new(service, backend, self.registry.clone(), Quota::default(), Arc::new(AlwaysLeased))
    }
}

fn gvk() -> Gvk {
    Gvk::new(GROUP, "v1", "Thing")
}

fn thing(of: &Gvk, number: usize) -> pb::Resource {
    pb::Resource {
        id: Some(pb::Id {
            uid: Ulid::generate().to_string(),
            name: format!("thing-{number}"),
            r#type: Some(of.to_pb()),
            tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() }),
        }),
        generation: Ulid::generate().to_string(),
        data: Some(prost_types::Any {
            type_url: "type.googleapis.com/mortise.test.v1.Thing".into(),
            value: Thing { number: number as i64, ..Thing::default() }.encode_to_vec(),
        }),
        ..pb::Resource::default()
    }
}

/// Reconciles a second, from the end of priming to the last resource. `seen` returns whether the controller runs, and
/// its reconciles.
async fn rate(resources: usize, seen: impl Fn() -> (bool, u64)) -> Outcome<f64> {
    let wait = Instant::now();
    let begun = loop {
        if seen().0 {
            break Instant::now();
        }
        if wait.elapsed() > Duration::from_secs(60) {
            return Err("the controller did not begin to work within a minute".into());
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
    };
    let before = seen().1;
    loop {
        let done = seen().1;
        if done >= resources as u64 {
            return Ok((done - before) as f64 / begun.elapsed().as_secs_f64());
        }
        if begun.elapsed() > Duration::from_secs(120) {
            return Err(format!("{done} of {resources} resources were reconciled within two minutes").into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Prints the rates, their ratio, and memory.
pub(crate) async fn measure(rounds: Rounds, resources: usize) -> Outcome<()> {
    let harness = BenchHarness::new(GUEST, &gvk(), resources).await?;
    let empty = resident_mib_of("self")?;
    let (mut ours, mut native, mut ratios, mut memory) = (Vec::new(), Vec::new(), Vec::new(), (0.0_f64, 0.0_f64));
    let mut aside = 0;
    for _ in 0..rounds.count {
        let controllers =
            Controllers::new(Arc::new(ServiceSource::new(harness.service.clone())), Arc::new(AlwaysLeased));
        controllers.register(Definition::new("nothing", gvk().to_pb(), Arc::new(NoopReconciler)))?;
        let seen = || {
            let status = controllers.status("nothing");
            status.map_or((false, 0), |s| (s.state == mortise_controller::State::Running, s.reconciles))
        };
        let plain = rate(resources, seen).await?;
        memory.0 = memory.0.max(resident_mib_of("self")?);
        controllers.shutdown().await;

        let controller_manager = harness.controller_manager();
        let following = controller_manager.start()?;
        let seen = || {
            let report = controller_manager.reports(GUEST).pop();
            report.map_or((false, 0), |report| (report.state == "Running", report.reconciles))
        };
        let wasm = rate(resources, seen).await?;
        memory.1 = memory.1.max(resident_mib_of("self")?);
        following.abort();
        controller_manager.stop().await;
        aside += u32::from(harness.plugin.has_low_priority());
        native.push(plain);
        ours.push(wasm);
        ratios.push(wasm / plain);
    }
    line(&format!(
        "controllers: {resources} resources through a reconciler that does nothing: wasm {:.0}/s, native {:.0}/s, ratio \
         {:.2}; memory {empty:.0} MiB before, {:.0} with the native one, {:.0} with wasm",
        median(ours),
        median(native),
        median(ratios),
        memory.0,
        memory.1
    ))?;
    // A guest that does nothing gives no cause for low priority.
    line(&format!("controllers: the plugin ran at low priority in {aside} of {} rounds", rounds.count))?;
    drop(harness);
    idle().await
}

/// Prints the share of a core that many idle controllers take.
async fn idle() -> Outcome<()> {
    let (count, resources, length) = (IDLE_CONTROLLERS, IDLE_RESOURCES, IDLE_TIME);
    let harness = BenchHarness::new(GUEST, &gvk(), resources).await?;
    let controllers = Controllers::new(Arc::new(ServiceSource::new(harness.service.clone())), Arc::new(AlwaysLeased));
    for n in 0..count {
        controllers.register(Definition::new(format!("nothing-{n}"), gvk().to_pb(), Arc::new(NoopReconciler)))?;
    }
    let controller_manager = harness.controller_manager();
    let following = controller_manager.start()?;
    let wanted = resources as u64;
    let begun = Instant::now();
    loop {
        let behind = controllers.statuses().iter().any(|status| status.reconciles < wanted);
        if !behind && controller_manager.reports(GUEST).pop().is_some_and(|report| report.reconciles >= wanted) {
            break;
        }
        if begun.elapsed() > Duration::from_secs(120) {
            return Err("the controllers did not come to rest within two minutes".into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = processor_time()?;
    tokio::time::sleep(length).await;
    let used = processor_time()?.saturating_sub(before);
    line(&format!(
        "controllers: {count} of them and one in wasm, idle, with {resources} resources: {:.2} % of a core; memory {:.0} MiB",
        used.as_secs_f64() / length.as_secs_f64() * 100.0,
        resident_mib_of("self")?
    ))?;
    controllers.shutdown().await;
    following.abort();
    controller_manager.stop().await;
    Ok(())
}

/// Processor time of this process.
pub(crate) fn processor_time() -> Outcome<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit_once(')').ok_or("/proc/self/stat has another form")?.1;
    let ticks = |n: usize| -> Outcome<u64> { Ok(after.split_whitespace().nth(n).ok_or("no times")?.parse()?) };
    // In hundredths of a second, on every Linux.
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
}
