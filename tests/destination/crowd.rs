//! Many streams of one service, half of them not reading: a change reaches the others at once, memory stays bounded,
//! and the silent half catches up as soon as it reads.
//!
//! Small by default: `MORTISE_CROWD_STREAMS` and `MORTISE_CROWD_ENDPOINTS` set the size; `mortise-bench destination`
//! measures the same.

use std::sync::Arc;

use mortise_api::catalog::{Endpoint, ServiceEndpoints};
use tokio::{
    sync::{Barrier, mpsc},
    task::JoinSet,
    time::{Instant, timeout},
};
use tonic::{
    Code,
    transport::{self, Channel},
};

use crate::{
    destination::proxy::{Api, Get, Proxy, Said, at, service, setup},
    support::{PATIENCE, Server, eventually},
};

const STREAMS: usize = 80;
const ENDPOINTS: u32 = 8_000;
const CHANGES: u32 = 12;

/// Streams of one connection.
const ON_ONE_CONNECTION: usize = 50;

/// Bytes that one stream may cost the server: the HTTP/2 buffer of an unread answer, with some reserve.
const STREAM_BYTES: usize = 128 << 10;
/// Bytes of everything else: the known service, its changes, and the allocator's reserve.
const OTHER_BYTES: usize = 96 << 20;

fn number<T: std::str::FromStr>(variable: &str, default: T) -> T {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The service after this many changes; each change moves the weight of one endpoint.
fn web(endpoints: u32, changes: u32) -> ServiceEndpoints {
    service((0..endpoints).map(|n| Endpoint {
        weight: if n < changes { n + 2 } else { 1 },
        ..at(&format!("10.{}.{}.{}:8080", n >> 16, n >> 8 & 0xff, n & 0xff))
    }))
}

/// A connection with small windows for unread streams.
async fn channel(addr: std::net::SocketAddr) -> Channel {
    transport::Endpoint::from_shared(format!("http://{addr}"))
        .unwrap()
        .initial_stream_window_size(64 << 10)
        .initial_connection_window_size(16 << 20)
        .connect()
        .await
        .unwrap()
}

/// Reads until the last change is known; returns the number of messages.
async fn converge(get: &mut Get, proxy: &mut Proxy, truth: &Proxy) -> usize {
    let mut messages = 0;
    while proxy.set != truth.set {
        proxy.hear(get.next().await);
        messages += 1;
    }
    messages
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_reaches_all_in_order_while_half_of_them_take_nothing() {
    let streams = number("MORTISE_CROWD_STREAMS", STREAMS).max(2);
    let endpoints = number("MORTISE_CROWD_ENDPOINTS", ENDPOINTS).max(CHANGES);
    let patience = PATIENCE * 4;
    // Longer than the test, so that clients that do not read stay connected until the end.
    let server = setup().env("MORTISE_HTTP_STALL_TIMEOUT_MS", 600_000).start().await;
    server.set("web", &web(endpoints, 0)).await;
    let mut first = Api::Linkerd.of(&server, "web").await;
    let mut truth = Proxy::default();
    truth.hear(first.next().await);
    let before = server.resident_bytes();

    let mut channels = Vec::new();
    for _ in 0..streams.div_ceil(ON_ONE_CONNECTION) {
        channels.push(channel(server.grpc).await);
    }
    let begun = Instant::now();
    let (heard, mut hears) = mpsc::unbounded_channel();
    let ready = Arc::new(Barrier::new(streams / 2 + 1));
    let (mut readers, mut stalled) = (JoinSet::new(), Vec::new());
    for n in 0..streams {
        let api = if n / 2 % 2 == 0 { Api::Conduit } else { Api::Linkerd };
        let mut get = api.get(channels[n % channels.len()].clone(), "web.default.svc").await.unwrap();
        if n % 2 == 1 && stalled.len() < streams - streams / 2 {
            stalled.push(get);
            continue;
        }
        let (heard, ready) = (heard.clone(), ready.clone());
        readers.spawn(async move {
            let mut proxy = Proxy::default();
            proxy.reconnect();
            proxy.hear(get.next().await);
            let all = proxy.set.len();
            ready.wait().await;
            let mut last = 1;
            while last < CHANGES + 1 {
                let said = get.next().await;
                let at = Instant::now();
                if let Said::Add(added, _) = &said {
                    for (_, told) in added {
                        assert_eq!(told.weight, last + 1, "in order, each change once");
                        last = told.weight;
                        heard.send((last - 1, at)).unwrap();
                    }
                }
                proxy.hear(said);
            }
            (all, proxy.set)
        });
    }
    assert_eq!(readers.len(), streams / 2);
    timeout(patience, ready.wait()).await.expect("all of them know the service in time");
    let known = begun.elapsed();

    let (mut took, mut writes) = (Vec::new(), Vec::new());
    for change in 1..=CHANGES {
        let sent = Instant::now();
        server.set("web", &web(endpoints, change)).await;
        writes.push(sent.elapsed());
        for _ in 0..streams / 2 {
            let (number, at) = timeout(patience, hears.recv()).await.expect("in time").unwrap();
            assert_eq!(number, change);
            took.push(at.duration_since(sent));
        }
    }
    let grown = server.resident_bytes().saturating_sub(before);
    for _ in 0..CHANGES {
        truth.hear(first.next().await);
    }
    while let Some(reader) = readers.join_next().await {
        let (all, set) = reader.unwrap();
        assert_eq!(all, endpoints as usize, "the first message has all of them");
        assert!(truth.set == set, "a reader knows the truth");
    }

    // The silent streams continue: the first state, then all changes in one message.
    let mut messages = 0;
    for get in &mut stalled {
        let mut proxy = Proxy::default();
        proxy.reconnect();
        let converging = converge(get, &mut proxy, &truth);
        messages = timeout(patience, converging).await.expect("it converges in time").max(messages);
    }
    took.sort();
    writes.sort();
    let at = |percent: usize| took[took.len() * percent / 100];
    eprintln!(
        "{streams} streams, {} of them stalled, {endpoints} endpoints: all knew the service after {known:?}; {CHANGES} \
         changes reached the readers after p50 {:?}, p99 {:?}, most {:?} (the write itself {:?}); the server grew by {} \
         MiB; the stalled ones converged in {messages} messages at most",
        stalled.len(),
        at(50),
        at(99),
        took[took.len() - 1],
        writes[writes.len() / 2],
        grown >> 20,
    );
    let most = streams * STREAM_BYTES + OTHER_BYTES;
    assert!(grown < most, "{} MiB grown, {} MiB allowed", grown >> 20, most >> 20);
    assert!(messages <= 4, "changes coalesce: {messages} messages");
}

async fn dropped(server: &Server) -> f64 {
    server.metric("mortise_grpc_answers_dropped_total").await.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_which_nothing_is_taken_end_when_too_much_waits() {
    // An answer has some 200 KB; the client receives the first 64 without reading.
    let endpoints = 12_000;
    let server = setup().env("MORTISE_GRPC_OUTBOUND_BUFFER_BYTES", 512 << 10).start().await;
    let channel = channel(server.grpc).await;
    let mut stalled = Vec::new();
    for change in 0..6 {
        server.set("web", &web(endpoints, change)).await;
        // Two streams of one kind share their bytes, which count once.
        for _ in 0..2 {
            stalled.push(Api::Linkerd.get(channel.clone(), "web.default.svc").await.unwrap());
        }
        // The state is queued at each stream; otherwise the next state would take its place.
        let sent = f64::from(2 * (change + 1));
        eventually("it is sent or dropped", async || {
            let sent_so_far = server.metric("mortise_destination_updates_total").await.unwrap_or_default();
            sent_so_far >= sent || dropped(&server).await > 0.0
        })
        .await;
        if change < 2 {
            assert_eq!(dropped(&server).await, 0.0, "{} states are within the limit", change + 1);
        }
    }
    eventually("some are ended", async || dropped(&server).await > 0.0).await;
    let end = stalled[0].end().await.expect("with a status");
    assert_eq!(end.code(), Code::ResourceExhausted, "{end:?}");
    assert!(end.message().contains("grpc.outbound_buffer_bytes"), "{end:?}");
    // The other streams stay open, and a new one is accepted.
    let mut reader = Api::Conduit.get(channel, "web.default.svc").await.unwrap();
    assert_eq!(reader.added().await.len(), endpoints as usize);
    let last = stalled.last_mut().unwrap();
    assert_eq!(last.added().await.len(), endpoints as usize);
}
