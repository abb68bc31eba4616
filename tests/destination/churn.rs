//! Services change at random, and clients connect and disconnect at random: in the end every client knows the true
//! state, and a service with endpoints never looks empty.
//!
//! Small by default: `MORTISE_CHURN_RUNS` and `MORTISE_CHURN_EVENTS` set the size, `MORTISE_CHURN_SEED` the first seed.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use mortise_api::catalog::{Endpoint, Health, ServiceEndpoints};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    destination::proxy::{Api, KIND, Proxy, Said, Told, at, endpoints_id, service, setup, types},
    support::{Server, any, resource, until},
};

const RUNS: u64 = 4;
const EVENTS: u64 = 250;
const CLIENTS: usize = 6;
const WORKLOADS: u32 = 40;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Expected endpoints of the service: `None` if it does not exist.
type Truth = Option<BTreeMap<u32, (u32, bool)>>;

fn endpoint(n: u32, weight: u32, is_healthy: bool) -> Endpoint {
    let health = if is_healthy { Health::Passing } else { Health::Critical };
    Endpoint {
        weight,
        health: health.into(),
        workload: format!("web-{n}"),
        ..at(&format!("10.0.{}.{}:8080", n / 200, n % 200))
    }
}

fn service_of(workloads: &BTreeMap<u32, (u32, bool)>) -> ServiceEndpoints {
    service(workloads.iter().map(|(n, (weight, is_healthy))| endpoint(*n, *weight, *is_healthy)))
}

fn is_live(truth: &Truth) -> bool {
    truth.as_ref().is_some_and(|workloads| workloads.values().any(|(_, is_healthy)| *is_healthy))
}

/// Changes the expected state by one event.
fn change(truth: &mut Truth, rng: &mut Rng, may_empty: bool) {
    let before = truth.clone();
    if may_empty && rng.u32(..60) == 0 {
        *truth = if truth.is_some() { None } else { Some(BTreeMap::new()) };
        return;
    }
    let n = rng.u32(..WORKLOADS);
    let workloads = truth.get_or_insert_default();
    match rng.u32(..6) {
        0 | 1 => _ = workloads.insert(n, (1, true)),
        2 => _ = workloads.remove(&n),
        3 => _ = workloads.insert(n, (rng.u32(1..100), true)),
        4 => _ = workloads.insert(n, (1, false)),
        // Replaces all of them at once.
        _ => *workloads = (0..rng.u32(1..WORKLOADS)).map(|k| ((k * 7 + n) % 200, (1, rng.bool()))).collect(),
    }
    if !may_empty && !is_live(truth) {
        *truth = before;
    }
}

/// State that all clients of a run share.
struct Run {
    /// Times that the service was emptied or deleted, counted before the write.
    emptied: AtomicU64,
    /// State that each client has received.
    known: Vec<Mutex<Proxy>>,
    messages: AtomicU64,
    connections: AtomicU64,
}

impl Run {
    /// Takes a client's message. Returns 1 if its known endpoints are gone; `excused` of these must not exceed the
    /// times that the service was emptied.
    fn hear(&self, number: usize, said: Said, excused: u64, may_empty: bool) -> u64 {
        self.messages.fetch_add(1, Ordering::Relaxed);
        let mut proxy = self.known[number].lock().unwrap();
        let mut empties = false;
        if let Said::NoEndpoints { .. } = said {
            assert!(may_empty, "client {number}: a service with live endpoints looks empty");
            empties = !proxy.set.is_empty();
            let emptied = self.emptied.load(Ordering::SeqCst);
            assert!(excused + u64::from(empties) <= emptied, "client {number}: it looks empty more often than it was");
        }
        proxy.hear(said);
        u64::from(empties)
    }
}

/// Runs one client, which reconnects now and then, and pauses reading now and then.
async fn follow(server: std::net::SocketAddr, number: usize, run: Arc<Run>, mut rng: Rng, may_empty: bool) {
    let api = if number.is_multiple_of(2) { Api::Conduit } else { Api::Linkerd };
    let mut excused = 0;
    loop {
        let channel =
            tonic::transport::Channel::from_shared(format!("http://{server}")).unwrap().connect().await.unwrap();
        let Ok(mut get) = api.get(channel, "web.default.svc.cluster.local").await else { continue };
        run.connections.fetch_add(1, Ordering::Relaxed);
        run.known[number].lock().unwrap().reconnect();
        let life = Duration::from_millis(rng.u64(10..1_500));
        let _ = timeout(life, async {
            loop {
                let Ok(Some(said)) = get.message().await else { return };
                excused += run.hear(number, said, excused, may_empty);
                if rng.u32(..40) == 0 {
                    // A client that does not read for a while.
                    sleep(Duration::from_millis(rng.u64(..200))).await;
                }
            }
        })
        .await;
    }
}

async fn churn(seed: u64, events: u64) {
    let mut rng = Rng::with_seed(seed);
    let may_empty = seed % 2 == 1;
    // In every other run the service's watch falls behind constantly and starts again.
    let server = if seed % 4 < 2 { setup() } else { setup().limit("watch_buffer", 4) };
    let server = server.start().await;
    let mut truth: Truth = Some((0..WORKLOADS / 2).map(|n| (n, (1, true))).collect());
    write(&server, &truth).await;
    let run = Arc::new(Run {
        emptied: AtomicU64::new(0),
        known: (0..CLIENTS).map(|_| Mutex::default()).collect(),
        messages: AtomicU64::new(0),
        connections: AtomicU64::new(0),
    });
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let rng = Rng::with_seed(seed * 1_000 + number as u64);
        clients.spawn(follow(server.grpc, number, run.clone(), rng, may_empty));
    }
    let mut others = JoinSet::new();
    for event in 0..events {
        let was_live = is_live(&truth);
        change(&mut truth, &mut rng, may_empty);
        if was_live && !is_live(&truth) {
            run.emptied.fetch_add(1, Ordering::SeqCst);
        }
        if rng.u32(..8) == 0 {
            // Services with similar names, which the watch must cover, too.
            for n in 0..6 {
                let mut client = server.client();
                let id = endpoints_id(&format!("web-{n}"));
                let other = resource(id, Some(any(KIND, &service([endpoint(n, event as u32, true)]))));
                others.spawn(async move {
                    drop(client.write(mortise_resource::pb::WriteRequest { resource: Some(other) }).await)
                });
            }
        }
        write(&server, &truth).await;
        while others.try_join_next().is_some() {}
        if event == events / 2 {
            std::fs::write(server.plugin_dir.join("catalog.wasm"), types("0.2.0")).unwrap();
        }
        assert!(clients.try_join_next().is_none_or(|ended| ended.is_ok()), "a client fails");
    }
    others.join_all().await;
    // The last event does not empty the service, and all runs end differently.
    truth.get_or_insert_default().insert(WORKLOADS + 1, (rng.u32(1..100), true));
    write(&server, &truth).await;
    let told = |n: u32, weight: u32| {
        let labels = BTreeMap::from([("workload".to_owned(), format!("web-{n}"))]);
        (
            format!("10.0.{}.{}:8080", n / 200, n % 200).parse().unwrap(),
            Told { weight, labels, identity: String::new() },
        )
    };
    let workloads = truth.unwrap();
    let expected: BTreeMap<_, _> =
        workloads.iter().filter(|(_, (_, is_healthy))| *is_healthy).map(|(n, (weight, _))| told(*n, *weight)).collect();
    until(&format!("seed {seed}: every client knows all {} endpoints", expected.len()), async || {
        if let Some(ended) = clients.try_join_next() {
            ended.unwrap();
        }
        let wrong = run.known.iter().enumerate().filter_map(|(number, known)| {
            let known = known.lock().unwrap();
            (known.set != expected || !known.exists).then(|| format!("client {number} knows {}", known.set.len()))
        });
        let wrong: Vec<_> = wrong.collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    })
    .await;
    let count = async |name: &str| server.metric(name).await.unwrap_or_default();
    eprintln!(
        "seed {seed}: {events} events, emptied {} times, {} connections of {CLIENTS} clients were told {} things; {} watches \
         and {} streams lagged",
        run.emptied.load(Ordering::SeqCst),
        run.connections.load(Ordering::Relaxed),
        run.messages.load(Ordering::Relaxed),
        count("mortise_watches_lagged_total").await,
        count("mortise_destination_streams_lagged_total").await,
    );
}

async fn write(server: &Server, truth: &Truth) {
    match truth {
        Some(workloads) => server.set("web", &service_of(workloads)).await,
        None => server.unset("web").await,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_knows_the_truth_in_the_end_and_nothing_looks_empty_meanwhile() {
    let (runs, events, first) =
        (number("MORTISE_CHURN_RUNS", RUNS), number("MORTISE_CHURN_EVENTS", EVENTS), number("MORTISE_CHURN_SEED", 0));
    for seed in first..first + runs {
        churn(seed, events).await;
    }
}
