//! The destination API: many streams of one large service, half of which take nothing. Measures the time from before a
//! change is written until the other streams have it, its bytes, the growth of the server's memory, and how the slow
//! streams catch up.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_api::{
    LinkerdDestinationClient,
    catalog::{Endpoint, EndpointPort, Health, ServiceEndpoints, ServicePort},
    linkerd::destination::{GetDestination, Update, update},
};
use mortise_resource::{pb, types::Gvk};
use prost::Message as _;
use tokio::{
    sync::{Barrier, mpsc},
    task::JoinSet,
    time::sleep,
};
use tonic::{Streaming, transport::Endpoint as Address};

use crate::{
    Outcome,
    report::{Line, Unit},
    servers::{Client, Server},
};

/// Streams of one connection.
const ON_ONE_CONNECTION: usize = 50;

/// Bytes of an unread stream that a client accepts.
const WINDOW: u32 = 64 << 10;

/// Time for memory to settle.
const SETTLE_TIME: Duration = Duration::from_secs(1);

/// Prints the cost of `changes` changes of a service with `endpoints` endpoints and `streams` streams.
pub(crate) async fn measure(streams: usize, endpoints: u32, changes: u32) -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let stall = [("MORTISE_HTTP_STALL_TIMEOUT_MS", "3600000")];
    let server = Server::mortise(dir.path(), &stall).await?;
    let mut writer = server.client().await?;
    write(&mut writer, endpoints, 0).await?;
    let before = server.resident_mib()?;

    let begun = Instant::now();
    let (heard, mut hears) = mpsc::unbounded_channel();
    let ready = Arc::new(Barrier::new(streams / 2 + 1));
    let (mut readers, mut stalled) = (JoinSet::new(), Vec::new());
    let mut client = None;
    for number in 0..streams {
        if number % ON_ONE_CONNECTION == 0 {
            let address = Address::from_shared(format!("http://{}", server.addr))?
                .initial_stream_window_size(WINDOW)
                .initial_connection_window_size(16 << 20);
            client = Some(LinkerdDestinationClient::new(address.connect().await?));
        }
        let Some(client) = &mut client else { continue };
        let request = GetDestination { path: "web.default.svc".into(), ..GetDestination::default() };
        let stream = client.get(request).await?.into_inner();
        if number % 2 == 1 || readers.len() == streams / 2 {
            stalled.push(stream);
            continue;
        }
        readers.spawn(read(stream, changes, ready.clone(), heard.clone()));
    }
    drop(heard);
    ready.wait().await;
    let known = begun.elapsed();
    sleep(SETTLE_TIME).await;
    let filled = server.resident_mib()?;

    let (mut took, mut last, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    for change in 1..=changes {
        let sent = Instant::now();
        write(&mut writer, endpoints, change).await?;
        writes.push(sent.elapsed());
        let mut slowest = Duration::ZERO;
        for _ in 0..streams / 2 {
            let (number, at): (u32, Instant) = hears.recv().await.ok_or("a reader ended")?;
            if number != change {
                return Err(format!("change {number} instead of {change}").into());
            }
            let one = at.duration_since(sent);
            slowest = slowest.max(one);
            took.push(one);
        }
        last.push(slowest);
    }
    let grown = server.resident_mib()?;
    let mut bytes = (0, 0);
    while let Some(reader) = readers.join_next().await {
        let (first, later) = reader??;
        bytes = (first, bytes.1 + later);
    }
    let begun = Instant::now();
    let mut messages = 0;
    let late = stalled.len();
    for stream in stalled {
        messages = catch_up(stream, changes).await?.max(messages);
    }
    let caught_up = begun.elapsed();
    let ms = |mut all: Vec<Duration>, percent: usize| {
        all.sort();
        all.get(all.len() * percent / 100).map_or(f64::NAN, |one| one.as_secs_f64() * 1e3)
    };
    let per_change = bytes.1 / (u64::from(changes) * (streams as u64 / 2)).max(1);
    Line::of(format!("destination: {changes} changes to {streams} streams of {endpoints} endpoints"))
        .figure("stalled streams", late as f64, Unit::Count)
        .figure("the readers knew the service after", known.as_secs_f64(), Unit::Seconds)
        .figure("the service", bytes.0 as f64, Unit::Bytes)
        .figure("a change reached a reader, p50 from the write's beginning", ms(took.clone(), 50), Unit::Milliseconds)
        .figure("p99", ms(took, 99), Unit::Milliseconds)
        .figure("the last reader, p50", ms(last, 50), Unit::Milliseconds)
        .figure("the write itself, p50", ms(writes, 50), Unit::Milliseconds)
        .figure("a change", per_change as f64, Unit::Bytes)
        .figure("memory before", before, Unit::Mebibytes)
        .figure("memory with the streams", filled, Unit::Mebibytes)
        .figure("memory after the changes", grown, Unit::Mebibytes)
        .figure("the stalled ones caught up in", caught_up.as_secs_f64(), Unit::Seconds)
        .figure("messages to one of them at most", messages as f64, Unit::Count)
        .print()?;
    server.stop().await
}

/// Writes the service after this number of changes: each one moves the weight of one endpoint.
async fn write(writer: &mut Client, endpoints: u32, changes: u32) -> Outcome<()> {
    let endpoint = |n: u32| Endpoint {
        workload: format!("web-{n}"),
        address: format!("10.{}.{}.{}", n >> 16, n >> 8 & 0xff, n & 0xff),
        weight: if n < changes { n + 2 } else { 1 },
        health: Health::Passing.into(),
        ports: vec![EndpointPort { name: "http".into(), port: 8080, ..EndpointPort::default() }],
        ..Endpoint::default()
    };
    let http = ServicePort { name: "http".into(), port: 80, target_port: "http".into(), ..ServicePort::default() };
    let web = ServiceEndpoints {
        endpoints: (0..endpoints).map(endpoint).collect(),
        ports: vec![http],
        ..ServiceEndpoints::default()
    };
    let type_url = "type.googleapis.com/catalog.v1.ServiceEndpoints".into();
    let id = pb::Id {
        name: "web".into(),
        r#type: Some(Gvk::new("catalog", "v1", "ServiceEndpoints").to_pb()),
        tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() }),
        ..pb::Id::default()
    };
    let data = prost_types::Any { type_url, value: web.encode_to_vec() };
    let resource = pb::Resource { id: Some(id), data: Some(data), ..pb::Resource::default() };
    writer.write(pb::WriteRequest { resource: Some(resource) }).await?;
    Ok(())
}

/// The changes of a message, and its bytes.
fn heard_in(message: &Update) -> (impl Iterator<Item = u32>, u64) {
    let added = match &message.update {
        Some(update::Update::Add(set)) => set.addrs.as_slice(),
        _ => &[],
    };
    (added.iter().filter(|one| one.weight > 1).map(|one| one.weight - 1), message.encoded_len() as u64)
}

/// Reads everything until the last change; returns the bytes of the first message and of the later ones.
async fn read(
    mut stream: Streaming<Update>,
    changes: u32,
    ready: Arc<Barrier>,
    heard: mpsc::UnboundedSender<(u32, Instant)>,
) -> Outcome<(u64, u64)> {
    let first = stream.message().await?.ok_or("the stream ended")?.encoded_len() as u64;
    ready.wait().await;
    let (mut later, mut last) = (0, 0);
    while last < changes {
        let message = stream.message().await?.ok_or("the stream ended")?;
        let at = Instant::now();
        let (numbers, bytes) = heard_in(&message);
        later += bytes;
        for number in numbers {
            if number != last + 1 {
                return Err(format!("change {number} after {last}").into());
            }
            last = number;
            heard.send((number, at))?;
        }
    }
    Ok((first, later))
}

/// Reads until the last change; returns the number of messages.
async fn catch_up(mut stream: Streaming<Update>, changes: u32) -> Outcome<usize> {
    let mut messages = 0;
    loop {
        let message = stream.message().await?.ok_or("the stream ended")?;
        messages += 1;
        if heard_in(&message).0.any(|number| number == changes) {
            return Ok(messages);
        }
    }
}
