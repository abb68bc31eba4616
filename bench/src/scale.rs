//! Costs of a million resources: the start, memory, and Read, Write and a page of a list beside those of 1,000; and the
//! costs of an idle server with many watches and controllers.

use std::{path::Path, sync::Arc, time::Duration};

use futures::future::try_join_all;
use mortise_api::{ControllerServiceClient, QueryServiceClient};
use mortise_resource::{
    data::{ListControllersRequest, SearchRequest},
    pb,
    types::Gvk,
};
use mortise_store::{Backend as _, Batch, Mutation, Options, SledBackend};
use mortise_test_guests::component;
use tonic::transport::Channel;

use crate::{
    Outcome,
    calls::{self, Reads, artist},
    latencies::compare,
    report::{Line, Unit, median},
    servers::{Client, Server, channel, sibling},
    versus::{Rounds, Work, rate},
};

/// Resources of one commit while a store is filled.
const BATCH: usize = 1_000;

/// Starts whose median is reported.
const STARTS: usize = 5;

/// Time of reads by 64 clients before the comparison.
const WARM_UP_TIME: Duration = Duration::from_secs(20);

/// Resources of a page: their names have all digits but the last two in common.
const PAGE: usize = 100;

/// Resources of the small store.
const FEW: usize = 1_000;

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
        store.commit(Batch::new((at..next).map(put).collect())).await?;
        at = next;
    }
    tokio::task::spawn_blocking(move || store.close()).await?;
    Ok(())
}

/// Starts a server several times; prints the median time to ready and the memory a moment after the last start.
async fn starts(resources: usize, data: &Path) -> Outcome<Server> {
    let cold = Server::mortise(data, &[]).await?;
    let first = cold.ready_after.as_secs_f64() * 1e3;
    cold.stop().await?;
    let mut took = Vec::new();
    for _ in 0..STARTS {
        let server = Server::mortise(data, &[]).await?;
        took.push(server.ready_after.as_secs_f64() * 1e3);
        server.stop().await?;
    }
    let server = Server::mortise(data, &[]).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    Line::of(format!("start with {resources} resources, median of {STARTS}"))
        .figure("the first, which compiles", first, Unit::Milliseconds)
        .figure("later ones", median(took), Unit::Milliseconds)
        .figure("memory 2 s later", server.resident_mib()?, Unit::Mebibytes)
        .print()?;
    Ok(server)
}

/// Writes of existing resources, all over the store.
struct Rewrites {
    clients: Vec<Client>,
    resources: usize,
}

impl Work for Rewrites {
    async fn call(&self, client: usize, turn: u64) -> Outcome<()> {
        let resource = Some(artist(&calls::name(client, turn, self.resources)));
        let mut stub = self.clients.get(client).ok_or("no such client")?.clone();
        stub.write(pb::WriteRequest { resource }).await?;
        Ok(())
    }
}

/// Returns the prefix of the names on the page for a client's turn: pages all over the store.
fn page(client: usize, turn: u64, of: usize) -> String {
    let mut name = calls::name(client, turn, of);
    name.truncate(name.len().saturating_sub(2));
    name
}

/// Lists of a page each, by a prefix of names.
struct Lists {
    clients: Vec<Client>,
    resources: usize,
}

impl Work for Lists {
    async fn call(&self, client: usize, turn: u64) -> Outcome<()> {
        let mut stub = self.clients.get(client).ok_or("no such client")?.clone();
        let request = pb::ListRequest {
            r#type: Some(Gvk::new("demo", "v2", "Artist").to_pb()),
            tenancy: Some(pb::Tenancy::default()),
            name_prefix: page(client, turn, self.resources),
        };
        whole(stub.list(request).await?.into_inner().resources.len())
    }
}

/// Searches of a page each, by a prefix of names.
struct Searches {
    clients: Vec<QueryServiceClient<Channel>>,
    resources: usize,
}

impl Searches {
    async fn new(server: &Server, clients: usize, of: usize) -> Outcome<Arc<Self>> {
        let channels = try_join_all((0..clients).map(|_| channel(server.addr))).await?;
        let client = |channel| QueryServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        Ok(Arc::new(Self { clients: channels.into_iter().map(client).collect(), resources: of }))
    }
}

impl Work for Searches {
    async fn call(&self, client: usize, turn: u64) -> Outcome<()> {
        let mut stub = self.clients.get(client).ok_or("no such client")?.clone();
        let request = SearchRequest {
            r#type: Some(Gvk::new("demo", "v2", "Artist").to_pb()),
            parent: page(client, turn, self.resources),
            page_size: PAGE as i32,
            ..SearchRequest::default()
        };
        whole(stub.search(request).await?.into_inner().resources.len())
    }
}

/// Checks the size of a page: a list without resources would be quick.
fn whole(resources: usize) -> Outcome<()> {
    if resources == PAGE { Ok(()) } else { Err(format!("a page of {resources} resources instead of {PAGE}").into()) }
}

/// Measures everything with this number of resources.
pub(crate) async fn measure(rounds: Rounds, resources: usize) -> Outcome<()> {
    if resources < FEW || !resources.is_multiple_of(PAGE) {
        return Err(format!("--resources {resources} must be a multiple of {PAGE}, at least {FEW}").into());
    }
    let (small_dir, large_dir) = (tempfile::tempdir()?, tempfile::tempdir()?);
    fill(small_dir.path(), FEW).await?;
    let small = starts(FEW, small_dir.path()).await?;
    fill(large_dir.path(), resources).await?;
    let large = starts(resources, large_dir.path()).await?;
    // The comparison is of warm servers; a cold one reads its pages from the file first.
    let warming = Arc::new(Reads { clients: large.clients(64).await?, resources, resource: artist });
    rate(&warming, 64, WARM_UP_TIME).await?;
    let names = [resources, FEW].map(|count| format!("among {count}"));
    let [many, few] = names.each_ref().map(String::as_str);
    for clients in [1, 64] {
        let reads = async |server: &Server, of| {
            Outcome::Ok(Arc::new(Reads { clients: server.clients(clients).await?, resources: of, resource: artist }))
        };
        let (ours, theirs) = (reads(&large, resources).await?, reads(&small, FEW).await?);
        compare("Read", (many, ours), (few, theirs), clients, rounds).await?;
        let writes = async |server: &Server, of| {
            Outcome::Ok(Arc::new(Rewrites { clients: server.clients(clients).await?, resources: of }))
        };
        let (ours, theirs) = (writes(&large, resources).await?, writes(&small, FEW).await?);
        compare("Write", (many, ours), (few, theirs), clients, rounds).await?;
    }
    let lists =
        async |server: &Server, of| Outcome::Ok(Arc::new(Lists { clients: server.clients(1).await?, resources: of }));
    let (ours, theirs) = (lists(&large, resources).await?, lists(&small, FEW).await?);
    compare(&format!("List of {PAGE} by a prefix"), (many, ours), (few, theirs), 1, rounds).await?;
    let (ours, theirs) = (Searches::new(&large, 1, resources).await?, Searches::new(&small, 1, FEW).await?);
    compare(&format!("Search of {PAGE} by a prefix"), (many, ours), (few, theirs), 1, rounds).await?;
    Line::of(format!("{resources} resources, after all of it"))
        .figure("memory", large.resident_mib()?, Unit::Mebibytes)
        .print()?;
    large.stop().await?;
    small.stop().await?;
    idle(None).await
}

/// Controllers without work, over all guests.
const IDLE_RUNNING: usize = 20;
/// Guests with these controllers.
const IDLE_CONTROLLERS: [&str; 5] =
    ["reconcile-sixteen", "reconcile-noop", "reconcile-self", "reconcile-slow", "reconcile-fail"];

/// Watches of an idle server.
const IDLE_WATCHES: usize = 1_000;
/// Resources of each watch.
const IDLE_RESOURCES: usize = 100;
/// Connections that the watches share.
const IDLE_CONNECTIONS: usize = 16;

/// Time for an idle server to settle.
const SETTLE_TIME: Duration = Duration::from_secs(5);
/// Time of the measurement of an idle server.
const IDLE_TIME: Duration = Duration::from_secs(20);

/// Prints the costs of an idle server: alone, with controllers, and with watches as well. `other` is another build's
/// binary.
pub(crate) async fn idle(other: Option<&Path>) -> Outcome<()> {
    let (bare, full) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let binary = other.map_or_else(|| sibling("mortise"), |other| Ok(other.to_owned()))?;
    let server = Server::of_binary(&binary, bare.path(), &[]).await?;
    at_rest("idle, no controller, no watch", &server).await?;
    server.stop().await?;

    for guest in IDLE_CONTROLLERS {
        std::fs::copy(component(guest), full.path().join(guest).with_extension("wasm"))?;
    }
    let server = Server::of_binary(&binary, full.path(), &[]).await?;
    let mut controllers = ControllerServiceClient::new(channel(server.addr).await?);
    let mut running = 0;
    for guest in IDLE_CONTROLLERS {
        let all = controllers.list(ListControllersRequest { plugin: guest.into() }).await?.into_inner().controllers;
        running += all.iter().filter(|one| one.state == "Running").count();
    }
    if running != IDLE_RUNNING {
        return Err(format!("{running} controllers run instead of {IDLE_RUNNING}").into());
    }
    calls::fill(&server, IDLE_RESOURCES).await?;
    at_rest(&format!("idle, {IDLE_RUNNING} controllers"), &server).await?;
    let connections = server.clients(IDLE_CONNECTIONS).await?;
    let watches = try_join_all(connections.iter().cycle().take(IDLE_WATCHES).cloned().map(watch)).await?;
    at_rest(
        &format!("idle, {IDLE_RUNNING} controllers and {IDLE_WATCHES} watches of {IDLE_RESOURCES} resources"),
        &server,
    )
    .await?;
    drop(watches);
    server.stop().await
}

/// Opens a watch and takes its snapshot.
async fn watch(mut client: Client) -> Outcome<tonic::Streaming<pb::WatchEvent>> {
    let request = pb::WatchListRequest { r#type: Some(Gvk::new("demo", "v2", "Artist").to_pb()), ..Default::default() };
    let mut events = client.watch_list(request).await?.into_inner();
    let mut seen = 0;
    while let Some(event) = events.message().await? {
        match event.event {
            Some(pb::watch_event::Event::EndOfSnapshot(_)) if seen == IDLE_RESOURCES => return Ok(events),
            Some(pb::watch_event::Event::Upsert(_)) => seen += 1,
            _ => return Err(format!("a snapshot of {seen} resources").into()),
        }
    }
    Err("a watch ended".into())
}

async fn at_rest(what: &str, server: &Server) -> Outcome<()> {
    tokio::time::sleep(SETTLE_TIME).await;
    let before = server.processor_seconds()?;
    tokio::time::sleep(IDLE_TIME).await;
    let used = server.processor_seconds()? - before;
    Line::of(what)
        .figure("processor", used / IDLE_TIME.as_secs_f64() * 100.0, Unit::PercentOfCore)
        .figure("memory", server.resident_mib()?, Unit::Mebibytes)
        .print()
}
