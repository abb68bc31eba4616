//! The hooks of one write, in process: a fresh instance, mutate, validate, authorize, drop.

use std::{sync::Arc, time::Instant};

use mortise_plugin_host::{Call, Limits, Plugin, PluginSettings, Sandbox};
use mortise_resource::{authorizer::AllowAll, pb};
use prost::Message as _;

use crate::{
    Outcome, calls,
    report::{line, median},
};

pub(crate) const DEMO: &[u8] = include_bytes!(env!("DEMO_WASM"));

/// Writes of one batch; the figure is the median of the batches.
const BATCH: u32 = 2_000;
const BATCHES: usize = 15;

/// Prints the microseconds of all hooks of a write, and of one hook alone.
pub(crate) async fn measure() -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let sandbox = Sandbox::new(&Limits::default(), dir.path().join("cache"))?;
    let begun = Instant::now();
    Plugin::load(&sandbox, "demo", DEMO, &PluginSettings::default()).await?;
    let cold = begun.elapsed();
    let begun = Instant::now();
    Plugin::load(&sandbox, "demo", DEMO, &PluginSettings::default()).await?;
    line(&format!(
        "hooks: demo component {} KiB; loading {:.1} ms compiled, {:.1} ms from the cache",
        DEMO.len() / 1024,
        cold.as_secs_f64() * 1e3,
        begun.elapsed().as_secs_f64() * 1e3
    ))?;

    let none = PluginSettings::default();
    let plugin = Plugin::load_file(&sandbox, &mortise_test_guests::component("every-hook"), &none).await?;
    let mut resource = calls::hooked("korn");
    if let Some(id) = &mut resource.id {
        id.uid = "01ARZ3NDEKTSV4RRFFQ69G5FAV".into();
        id.tenancy = Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() });
    }
    let bytes = resource.encode_to_vec();
    let all = time(async || {
        let mut call = Call::new(plugin.clone(), Arc::new(AllowAll));
        call.mutate(bytes.clone()).await?;
        call.validate(bytes.clone(), None).await?;
        call.authorize_write(bytes.clone()).await?;
        Ok(())
    })
    .await?;
    let one = time(async || {
        Call::new(plugin.clone(), Arc::new(AllowAll)).authorize_write(bytes.clone()).await?;
        Ok(())
    })
    .await?;
    line(&format!(
        "hooks: fresh instance with mutate + validate + authorize of {} bytes: {all:.1} µs; with authorize alone: \
         {one:.1} µs",
        bytes.len()
    ))
}

/// Microseconds of one call, the median of batches.
async fn time(mut call: impl AsyncFnMut() -> Outcome<()>) -> Outcome<f64> {
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        let begun = Instant::now();
        for _ in 0..BATCH {
            call().await?;
        }
        batches.push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(BATCH));
    }
    Ok(median(batches))
}
