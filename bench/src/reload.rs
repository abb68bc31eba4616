//! Reloads: the time from saving a file to serving it, with and without compiling, and a thousand reloads under load.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use mortise_resource::{
    data,
    pb::{self, watch_event::Event},
    types::{self, Gvk},
};
use mortise_test_guests::{Thing, component};
use prost::Message as _;
use tokio::task::JoinSet;
use tonic::Streaming;

use crate::{
    Outcome,
    hooks::DEMO,
    report::{Line, Unit, median},
    servers::{Client, Server},
};

/// Clients that write and read meanwhile.
const CLIENTS: usize = 32;

/// Reloads after which memory must no longer grow.
const WARM: usize = 50;

/// Files whose median time from saving to serving is reported.
const SAVES: usize = 9;

/// Measures single reloads, then reloads under load.
pub(crate) async fn measure(reloads: usize) -> Outcome<()> {
    saves().await?;
    under_load(reloads).await
}

/// The demo plugin with a meaningless section: another component, as large and as slow to compile.
fn variant(n: usize) -> Vec<u8> {
    let note = format!("{n:08}");
    let mut bytes = DEMO.to_vec();
    // A custom section: its id, its length, its name (of one byte) and its content.
    bytes.extend([0, 10, 1, b'n']);
    bytes.extend(note.as_bytes());
    bytes
}

async fn saves() -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let server = Server::bare(dir.path()).await?;
    let mut plugins = Watch::open(&server).await?;
    let path = dir.path().join("plugins").join("demo.wasm");
    for (what, fresh) in [("compiled", true), ("found in the compile cache", false)] {
        let mut took = Vec::new();
        for n in 0..SAVES + 2 {
            let bytes = variant(if fresh { n } else { n % 2 });
            let digest = mortise_plugin_manager::files::digest(&bytes);
            let begun = Instant::now();
            save(&path, &bytes)?;
            plugins.until(|plugin| plugin.digest == digest).await?;
            took.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        Line::of(format!("demo plugin, {what}, median of {SAVES}"))
            .figure("from saving the file to serving it", median(took.split_off(2)), Unit::Milliseconds)
            .print()?;
    }
    server.stop().await
}

async fn under_load(reloads: usize) -> Outcome<()> {
    let guests = ["version-stamp-1", "version-stamp-2"].map(component).map(std::fs::read);
    let [one, two] = guests;
    let guests = [(one?, "1.0.0"), (two?, "2.0.0")];
    let dir = tempfile::tempdir()?;
    let server = Server::bare(dir.path()).await?;
    let mut plugins = Watch::open(&server).await?;
    let path = dir.path().join("plugins").join("version-stamp.wasm");
    let (mut calls, stop) = (JoinSet::new(), Arc::new(AtomicBool::new(false)));
    let done = Arc::new(AtomicU64::new(0));
    let (mut warm, begun) = (0.0, Instant::now());
    for reload in 0..reloads {
        let (bytes, version) = guests.get(reload % 2).ok_or("no such guest")?;
        save(&path, bytes)?;
        plugins.until(|plugin| plugin.version == *version).await?;
        if reload == 0 {
            for (n, client) in server.clients(CLIENTS).await?.into_iter().enumerate() {
                calls.spawn(write_and_read(client, n, stop.clone(), done.clone()));
            }
        }
        if reload == WARM {
            warm = server.resident_mib()?;
        }
        if let Some(ended) = calls.try_join_next() {
            ended??;
        }
    }
    let took = begun.elapsed();
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = calls.join_next().await {
        ended??;
    }
    // A call that failed, or was served by two versions, has ended the run.
    Line::of(format!("{reloads} reloads under load"))
        .clients(CLIENTS)
        .figure("all of them", took.as_secs_f64(), Unit::Seconds)
        .figure("calls, none of which failed", done.load(Ordering::Relaxed) as f64, Unit::Count)
        .figure(format!("memory after {WARM}"), warm, Unit::Mebibytes)
        .figure("memory at the end", server.resident_mib()?, Unit::Mebibytes)
        .print()?;
    server.stop().await
}

/// Fails at the first call that fails, or that two versions served by halves.
async fn write_and_read(mut client: Client, n: usize, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) -> Outcome<()> {
    while !stop.load(Ordering::Relaxed) {
        let value = Thing::default().encode_to_vec();
        let resource = pb::Resource {
            id: Some(pb::Id {
                uid: String::new(),
                name: format!("thing-{n}"),
                r#type: Some(Gvk::new("version_stamp", "v1", "Thing").to_pb()),
                tenancy: None,
            }),
            data: Some(prost_types::Any { type_url: "type.googleapis.com/mortise.test.v1.Thing".into(), value }),
            ..pb::Resource::default()
        };
        let written = client.write(pb::WriteRequest { resource: Some(resource) }).await?.into_inner();
        let stored = written.resource.ok_or("no resource")?;
        let said = format!("validated by {}", stored.metadata.get("mutated-by").ok_or("not mutated")?);
        if !written.warnings.iter().any(|warning| warning.summary == said) {
            return Err(format!("one call was served by two versions: {said}, but {:?}", written.warnings).into());
        }
        client.read(pb::ReadRequest { id: stored.id }).await?;
        done.fetch_add(2, Ordering::Relaxed);
    }
    Ok(())
}

/// Saves a file as editors and build tools do: writes a new one, and renames it over the old one.
fn save(path: &Path, bytes: &[u8]) -> Outcome<()> {
    let next = path.with_extension("next");
    std::fs::write(&next, bytes)?;
    Ok(std::fs::rename(next, path)?)
}

/// A watch of plugins.
struct Watch(Streaming<pb::WatchEvent>);

impl Watch {
    async fn open(server: &Server) -> Outcome<Self> {
        let mut client = server.client().await?;
        let request = pb::WatchListRequest { r#type: Some(types::plugin().to_pb()), ..Default::default() };
        Ok(Self(client.watch_list(request).await?.into_inner()))
    }

    /// Waits until a serving plugin fulfils the condition.
    async fn until(&mut self, holds: impl Fn(&data::Plugin) -> bool) -> Outcome<()> {
        loop {
            let event = self.0.message().await?.ok_or("the watch ended")?;
            let Some(Event::Upsert(upsert)) = event.event else { continue };
            let resource = upsert.resource.unwrap_or_default();
            let conditions = resource.status.get("mortise").map(|s| s.conditions.as_slice()).unwrap_or_default();
            let loaded = conditions.iter().find(|c| c.r#type == "Loaded");
            let bytes = resource.data.as_ref().map(|any| any.value.as_slice()).unwrap_or_default();
            match loaded.map(|c| c.reason.as_str()) {
                Some("Serving") if holds(&data::Plugin::decode(bytes)?) => return Ok(()),
                Some("Serving" | "Waiting" | "Compiling" | "Checking" | "Swapping") | None => {}
                Some(other) => return Err(format!("a plugin is not loaded: {other}").into()),
            }
        }
    }
}
