//! Service discovery: the time until the endpoints of many services match their workloads, beside the writes
//! themselves, and the number of reconciles.
//!
//! Each service selects one workload. Every workload is changed once, by 64 clients; the clock stops when a watch of
//! the endpoints has seen the last change. As a ceiling, the same clients write as many artists in the same run.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use mortise_api::{ControllerServiceClient, stubs::resource_service_client::ResourceServiceClient};
use mortise_resource::{data::ListControllersRequest, grpc::catalog, pb, types::Gvk};
use prost::Message;
use tokio::{task::JoinSet, time::sleep};

use crate::{
    Outcome,
    calls::artist,
    report::{Line, Unit},
    servers::{Client, Server, channel},
};

const CLIENTS: usize = 64;

/// Time without reconciles after which the controllers count as finished.
const QUIET_TIME: Duration = Duration::from_millis(300);

/// Prints the cost of a change of the workloads of `services` services.
pub(crate) async fn measure(services: usize) -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let server = Server::mortise(dir.path(), &[]).await?;
    let clients = server.clients(CLIENTS).await?;
    write_all(&clients, services, service).await?;
    let created = settle(&server, &clients, services, "192.0.2.1").await?;
    let before = reconciles(&server).await?;
    let changed = settle(&server, &clients, services, "192.0.2.2").await?;
    let reconciled = reconciles(&server).await? - before;
    let begun = Instant::now();
    write_all(&clients, services, |number| artist(&format!("a{number}"))).await?;
    let ceiling = begun.elapsed();
    Line::of(format!("catalog of {services} services, each with one workload"))
        .clients(CLIENTS)
        .figure("all endpoints there after", ms(created.endpoints), Unit::Milliseconds)
        .figure("changed workloads written after", ms(changed.writes), Unit::Milliseconds)
        .figure("all endpoints changed after", ms(changed.endpoints), Unit::Milliseconds)
        .figure("reconciles", reconciled as f64, Unit::Count)
        .figure("as many artists written after", ms(ceiling), Unit::Milliseconds)
        .figure("memory", server.resident_mib()?, Unit::Mebibytes)
        .print()?;
    server.stop().await
}

struct Times {
    writes: Duration,
    endpoints: Duration,
}

/// Writes every workload with an address, and waits for the endpoints with this address.
async fn settle(server: &Server, clients: &[Client], services: usize, address: &'static str) -> Outcome<Times> {
    let mut watching = ResourceServiceClient::new(channel(server.addr).await?);
    let begun = Instant::now();
    let seen = tokio::spawn(async move {
        let request = pb::WatchListRequest {
            r#type: Some(Gvk::new("catalog", "v1", "ServiceEndpoints").to_pb()),
            ..pb::WatchListRequest::default()
        };
        let mut events = watching.watch_list(request).await?.into_inner();
        let mut there = HashSet::new();
        while there.len() < services {
            let event = events.message().await?.ok_or("the watch ended")?;
            let Some(pb::watch_event::Event::Upsert(upsert)) = event.event else { continue };
            let Some(resource) = upsert.resource else { continue };
            let data = resource.data.map(|data| data.value).unwrap_or_default();
            let found = catalog::ServiceEndpoints::decode(data.as_slice())?;
            if found.endpoints.iter().any(|one| one.address == address) {
                there.insert(resource.id.map(|id| id.name));
            }
        }
        Outcome::Ok(begun.elapsed())
    });
    write_all(clients, services, move |number| workload(number, address)).await?;
    let writes = begun.elapsed();
    let endpoints = seen.await??;
    // The writes of the controllers wake them once more.
    let mut count = reconciles(server).await?;
    loop {
        sleep(QUIET_TIME).await;
        let now = reconciles(server).await?;
        if now == count {
            return Ok(Times { writes, endpoints });
        }
        count = now;
    }
}

/// Reconciles of the controller of endpoints so far.
async fn reconciles(server: &Server) -> Outcome<u64> {
    let mut client = ControllerServiceClient::new(channel(server.addr).await?);
    let all = client.list(ListControllersRequest { plugin: "catalog".into() }).await?.into_inner().controllers;
    let found = all.iter().find(|one| one.name == "catalog/endpoints").ok_or("no catalog/endpoints")?;
    Ok(found.reconciles)
}

async fn write_all(
    clients: &[Client],
    count: usize,
    make: impl Fn(usize) -> pb::Resource + Clone + Send + 'static,
) -> Outcome<()> {
    let mut tasks = JoinSet::new();
    for (first, client) in clients.iter().enumerate() {
        let (mut client, make, step) = (client.clone(), make.clone(), clients.len());
        tasks.spawn(async move {
            for number in (first..count).step_by(step) {
                client.write(pb::WriteRequest { resource: Some(make(number)) }).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

fn service(number: usize) -> pb::Resource {
    let port = catalog::ServicePort { name: "http".into(), port: 80, ..Default::default() };
    let selector = catalog::Selector { prefixes: vec![format!("w{number}-")], ..Default::default() };
    resource(
        "Service",
        format!("s{number}"),
        &catalog::Service { selector: Some(selector), ports: vec![port], ..Default::default() },
    )
}

fn workload(number: usize, address: &str) -> pb::Resource {
    let port = catalog::WorkloadPort { name: "http".into(), port: 8080, protocol: 0, opaque: false };
    let address = catalog::WorkloadAddress { host: address.into(), ports: Vec::new() };
    let data = catalog::Workload { addresses: vec![address], ports: vec![port], ..Default::default() };
    resource("Workload", format!("w{number}-a"), &data)
}

fn resource<M: Message>(kind: &str, name: String, data: &M) -> pb::Resource {
    let id = pb::Id { name, r#type: Some(Gvk::new("catalog", "v1", kind).to_pb()), ..pb::Id::default() };
    let data =
        prost_types::Any { type_url: format!("type.googleapis.com/catalog.v1.{kind}"), value: data.encode_to_vec() };
    pb::Resource { id: Some(id), data: Some(data), ..pb::Resource::default() }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
