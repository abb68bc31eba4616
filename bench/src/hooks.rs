//! The hooks of one write of a 1 KB resource, in process, by their parts: an instance, a call, the copy of the
//! resource, and the guest's own work. Beside them the same components through bare wasmtime, and the same Rust code
//! natively.
//!
//! Parts are differences of measured times: a guest that ignores its input is called with an empty resource and with
//! the whole one, and then the guest with every hook. All variants take turns.

use std::{sync::Arc, time::Instant};

use mortise_plugin::testing::as_caller;
use mortise_plugin_host::{Call, Limits, Plugin, PluginSettings, Sandbox};
use mortise_resource::{authorizer::AllowAll, pb};
use mortise_test_guests::component;
use prost::Message as _;

use crate::{
    Outcome,
    bare_wasmtime::BarePlugin,
    calls,
    report::{Line, Unit, median},
};

/// The guest whose hooks are measured, as a module of this program.
#[allow(unreachable_pub, reason = "it is a program of its own elsewhere")]
#[path = "../../tests/guests/examples/every-hook.rs"]
mod every_hook;

pub(crate) const DEMO: &[u8] = include_bytes!(env!("DEMO_WASM"));

/// Bytes of the encoded resource.
const SIZE: usize = 1024;

/// Hooks of a write.
const HOOKS: f64 = 3.0;

/// Writes of one batch.
const BATCH: u32 = 2_000;
/// Batches whose median is the figure.
const BATCHES: usize = 15;

/// A guest with every hook, in both forms.
struct Guest {
    mortise: Arc<Plugin>,
    bare: BarePlugin,
}

impl Guest {
    async fn load(sandbox: &Sandbox, name: &str) -> Outcome<Self> {
        let bytes = std::fs::read(component(name))?;
        let mortise = Plugin::load(sandbox, name, &bytes, &PluginSettings::default()).await?;
        Ok(Self { mortise, bare: BarePlugin::load(&bytes)? })
    }

    async fn write(&self, resource: Option<&Vec<u8>>) -> Outcome<()> {
        write(&self.mortise, resource).await
    }
}

/// Calls the hooks of a write as the service does, in a new instance; without a resource, makes only the instance.
pub(crate) async fn write(plugin: &Arc<Plugin>, resource: Option<&Vec<u8>>) -> Outcome<()> {
    let mut call = Call::new(plugin.clone(), Arc::new(AllowAll));
    let Some(resource) = resource else { return Ok(call.instantiate().await?) };
    call.mutate(resource.clone()).await?;
    call.validate(resource.clone(), None).await?;
    call.authorize_write(resource.clone()).await?;
    Ok(())
}

/// The resource of a write, with an encoding of [`SIZE`] bytes.
pub(crate) fn resource() -> Vec<u8> {
    let mut resource = calls::hooked("korn");
    if let Some(id) = &mut resource.id {
        id.uid = "01ARZ3NDEKTSV4RRFFQ69G5FAV".into();
        id.tenancy = Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() });
    }
    resource.metadata.insert("note".into(), String::new());
    let missing = SIZE.saturating_sub(resource.encoded_len());
    // The two lengths grow by a byte each, and the value gets a tag and a length.
    let note = "x".repeat(missing.saturating_sub(4));
    resource.metadata.insert("note".into(), note);
    resource.encode_to_vec()
}

/// Prints the parts, in microseconds of one write.
pub(crate) async fn measure() -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let sandbox = Sandbox::new(&Limits::default(), dir.path().join("cache"))?;
    let mut loads = Vec::new();
    for _ in 0..2 {
        let begun = Instant::now();
        Plugin::load(&sandbox, "demo", DEMO, &PluginSettings::default()).await?;
        loads.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let [compiled, cached] = loads.as_slice() else { return Err("the demo was not loaded twice".into()) };
    Line::of("hooks: loading the demo")
        .figure("component", DEMO.len() as f64, Unit::Bytes)
        .figure("compiled", *compiled, Unit::Milliseconds)
        .figure("from the cache", *cached, Unit::Milliseconds)
        .print()?;

    let (raw, every) = (Guest::load(&sandbox, "raw-hooks").await?, Guest::load(&sandbox, "every-hook").await?);
    let (empty, whole) = (Vec::new(), resource());
    let variants = [(&raw, None), (&raw, Some(&empty)), (&raw, Some(&whole)), (&every, None), (&every, Some(&whole))];
    let (mut ours, mut bare): ([Vec<f64>; 5], [Vec<f64>; 5]) = Default::default();
    let (mut native, mut native_copy) = (Vec::new(), Vec::new());
    for _ in 0..BATCHES {
        for (number, (guest, resource)) in variants.iter().enumerate() {
            let (Some(ours), Some(bare)) = (ours.get_mut(number), bare.get_mut(number)) else { continue };
            ours.push(batch(async || guest.write(*resource).await).await?);
            bare.push(batch(async || guest.bare.write(*resource)).await?);
        }
        native.push(batch(async || natively(&whole)).await?);
        native_copy.push(batch(async || copy(&whole)).await?);
    }
    let parts = |figures: [Vec<f64>; 5]| {
        let [raw_instance, raw_empty, raw_whole, instance, all] = figures.map(median);
        let copy = raw_whole - raw_empty;
        // A call costs the same for both guests; their instances differ in size.
        [instance, (raw_empty - raw_instance) / HOOKS, copy, all - instance - (raw_whole - raw_instance), all]
    };
    let (ours, bare) = (parts(ours), parts(bare));
    let (native, native_copy) = (median(native), median(native_copy));
    let native = [None, None, Some(native_copy), Some(native - native_copy), Some(native)];
    let names = [
        "an instance, made and given back".to_owned(),
        "a call of a hook that does nothing, of which there are three".to_owned(),
        format!("the three copies of {} bytes", whole.len()),
        "the guest's own decode, work and encode".to_owned(),
        "all of it".to_owned(),
    ];
    for (((name, ours), bare), native) in names.into_iter().zip(ours).zip(bare).zip(native) {
        let line = Line::of(format!("hooks of a write: {name}")).figure("mortise", ours, Unit::Microseconds).figure(
            "bare wasmtime",
            bare,
            Unit::Microseconds,
        );
        let line = match native {
            Some(native) => line.figure("native", native, Unit::Microseconds),
            None => line,
        };
        line.print()?;
    }
    Ok(())
}

/// The guest's hooks as functions of this program, each with a copy of the resource, as in a guest.
fn natively(resource: &[u8]) -> Outcome<()> {
    let plugin = &every_hook::PLUGIN;
    plugin.mutate(&std::hint::black_box(resource.to_vec())).map_err(|_| "mutate refused")?;
    std::hint::black_box(plugin.validate(&std::hint::black_box(resource.to_vec()), None));
    let decision = as_caller(|_, _| true, || plugin.write(&std::hint::black_box(resource.to_vec())));
    if decision == mortise_plugin::Decision::Allow { Ok(()) } else { Err("authorize refused".into()) }
}

/// The copies alone.
fn copy(resource: &[u8]) -> Outcome<()> {
    for _ in 0..HOOKS as usize {
        std::hint::black_box(resource.to_vec());
    }
    Ok(())
}

/// Measures a batch of calls; returns microseconds of one call.
async fn batch(mut call: impl AsyncFnMut() -> Outcome<()>) -> Outcome<f64> {
    let begun = Instant::now();
    for _ in 0..BATCH {
        call().await?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH))
}
