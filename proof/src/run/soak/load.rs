//! The load of a soak: paced clients whose resources stay the same in number and size.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use fastrand::Rng;
use mortise_proof::record::{DEFAULT_NAMESPACE, Key};
use mortise_resource::{grpc::ResourceServiceClient, pb};
use tokio::task::JoinSet;
use tonic::{Code, Status, transport::Channel};

use super::super::{
    convert::{ALBUM, ARTIST, id, place, resource, status, type_of},
    faults::status_of,
    world::{Connection, World, lock},
};

/// Clients that change and read.
const CLIENTS: usize = 4;
/// Clients that watch.
const WATCHES: usize = 2;
/// Pause of a client between two calls.
const PAUSE: Duration = Duration::from_millis(10);
/// Names of the changed resources.
const NAMES: usize = 60;
/// Resources that are written and deleted together, and the bytes of each.
const BALLAST: (usize, usize) = (50, 20_000);
/// Events after which a watch begins again.
const EVENTS: usize = 200;

/// Counts of the load.
#[derive(Default)]
pub(crate) struct Load {
    calls: AtomicU64,
    failures: AtomicU64,
    ballast_bytes: AtomicU64,
    /// Number and sum of the latencies of writes since the last sample, seconds.
    latency: Mutex<(u32, f64)>,
}

impl Load {
    /// Returns calls, failures, and MiB of ballast.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.calls), count(&self.failures), count(&self.ballast_bytes) >> 20)
    }

    /// Returns the mean latency of the writes since the last call, ms.
    pub(crate) fn take_latency(&self) -> Option<f64> {
        let (count, sum) = std::mem::take(&mut *lock(&self.latency));
        (count > 0).then(|| 1_000.0 * sum / f64::from(count))
    }

    /// Counts an answer; returns whether the connection should be made again.
    fn count<T>(&self, answer: &Result<T, Status>) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let Err(status) = answer else { return false };
        if matches!(status.code(), Code::NotFound | Code::Aborted | Code::FailedPrecondition) {
            return false;
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// Starts the clients.
pub(crate) fn spawn(tasks: &mut JoinSet<()>, world: &Arc<World>, load: &Arc<Load>) {
    for number in 0..CLIENTS {
        tasks.spawn(change(world.clone(), load.clone(), Rng::with_seed(number as u64)));
    }
    for _ in 0..WATCHES {
        tasks.spawn(watch(world.clone(), load.clone()));
    }
    tasks.spawn(ballast(world.clone(), load.clone()));
    tasks.spawn(http(world.clone(), load.clone()));
}

fn client(connection: &Connection) -> ResourceServiceClient<Channel> {
    ResourceServiceClient::new(connection.channel.clone()).max_decoding_message_size(usize::MAX)
}

fn key(kind: &str, name: String) -> Key {
    Key { kind: kind.to_owned(), namespace: DEFAULT_NAMESPACE.to_owned(), name }
}

/// Writes, reads, lists, deletes and sets statuses of the same few names.
async fn change(world: Arc<World>, load: Arc<Load>, mut random: Rng) {
    loop {
        let connection = world.connect(0).await;
        loop {
            let name = format!("k{}", random.usize(..NAMES));
            let key = key(if random.bool() { ARTIST } else { ALBUM }, name);
            let mut client = client(&connection);
            let is_lost = match random.u8(..20) {
                0..9 => {
                    let request = resource(&key, "", None, &world.text());
                    let begun = Instant::now();
                    let answer = client.write(pb::WriteRequest { resource: Some(request) }).await;
                    if answer.is_ok() {
                        let mut latency = lock(&load.latency);
                        *latency = (latency.0 + 1, latency.1 + begun.elapsed().as_secs_f64());
                    }
                    load.count(&answer)
                }
                9 | 10 => {
                    let request = pb::DeleteRequest { id: Some(id(&key, "")), version: String::new() };
                    load.count(&client.delete(request).await)
                }
                11 => {
                    let request = pb::ListRequest {
                        r#type: Some(type_of(&key.kind)),
                        tenancy: Some(place(DEFAULT_NAMESPACE)),
                        name_prefix: "k".to_owned(),
                    };
                    load.count(&client.list(request).await)
                }
                12 => set_status(&load, &mut client, &key, world.text()).await,
                _ => load.count(&client.read(pb::ReadRequest { id: Some(id(&key, "")) }).await),
            };
            if is_lost {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn set_status(load: &Load, client: &mut ResourceServiceClient<Channel>, key: &Key, text: String) -> bool {
    let read = client.read(pb::ReadRequest { id: Some(id(key, "")) }).await;
    let is_lost = load.count(&read);
    let Some(found) = read.ok().and_then(|answer| answer.into_inner().resource) else { return is_lost };
    let request = pb::WriteStatusRequest {
        id: found.id,
        version: String::new(),
        key: "soak".to_owned(),
        status: Some(status(&found.generation, &text)),
    };
    load.count(&client.write_status(request).await)
}

/// Follows all artists, each time over a connection of its own.
async fn watch(world: Arc<World>, load: Arc<Load>) {
    loop {
        let connection = world.connect(0).await;
        let request = pb::WatchListRequest {
            r#type: Some(type_of(ARTIST)),
            tenancy: Some(place(DEFAULT_NAMESPACE)),
            name_prefix: "k".to_owned(),
            after: None,
        };
        let answer = client(&connection).watch_list(request).await;
        load.count(&answer);
        let Ok(events) = answer else { continue };
        let mut events = events.into_inner();
        for _ in 0..EVENTS {
            if !matches!(events.message().await, Ok(Some(_))) {
                break;
            }
        }
    }
}

/// Writes and deletes large resources.
async fn ballast(world: Arc<World>, load: Arc<Load>) {
    let (count, bytes) = BALLAST;
    loop {
        let connection = world.connect(0).await;
        for number in 0..2 * count {
            let (key, mut client) = (key(ARTIST, format!("ballast{}", number % count)), client(&connection));
            let is_lost = if number < count {
                let mut request = resource(&key, "", None, &world.text());
                request.metadata.insert("text".to_owned(), "x".repeat(bytes));
                load.ballast_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                load.count(&client.write(pb::WriteRequest { resource: Some(request) }).await)
            } else {
                let request = pb::DeleteRequest { id: Some(id(&key, "")), version: String::new() };
                load.count(&client.delete(request).await)
            };
            if is_lost {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Asks over HTTP, each time over a connection of its own.
async fn http(world: Arc<World>, load: Arc<Load>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(addr) = world.http() else { continue };
        let path = "/api/demo/v2/artist/k1";
        if status_of(addr, path).await.is_ok() {
            load.calls.fetch_add(1, Ordering::Relaxed);
        }
    }
}
