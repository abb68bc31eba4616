//! Servers are replaced one after another while clients work.

use std::{
    error::Error as _,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use mortise_api::ResourceServiceClient;
use mortise_resource::pb;
use tonic::{Code, transport::Channel};

use super::{Shared, members};
use crate::support::{Client, artist, id_of, until, with_metadata};

const CLIENTS: usize = 4;
/// Calls that all clients together make before the next step.
const CALLS_OF_A_STEP: usize = 200;

/// Calls of all clients.
#[derive(Default)]
struct Counts {
    calls: AtomicUsize,
    /// Attempts that another server had to answer.
    moved: AtomicUsize,
}

/// The servers that clients know, and what they do with them.
struct World {
    addresses: Mutex<Vec<SocketAddr>>,
    counts: Counts,
    ends: tokio::sync::watch::Receiver<bool>,
}

/// A client with one server at a time; it goes to the next one when a server goes away.
struct Caller {
    world: Arc<World>,
    position: usize,
    client: Option<Client>,
}

impl Caller {
    async fn client(&mut self) -> Result<Client, tonic::Status> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let addresses = self.world.addresses.lock().unwrap().clone();
        let endpoint = format!("http://{}", addresses[self.position % addresses.len()]);
        let channel = Channel::from_shared(endpoint).unwrap().connect().await;
        let channel = channel.map_err(|fault| tonic::Status::unavailable(fault.to_string()))?;
        Ok(self.client.insert(ResourceServiceClient::new(channel)).clone())
    }

    /// Calls until a server answers; an attempt on each of the servers, and one more.
    async fn call<T, F: Future<Output = Result<T, tonic::Status>>>(&mut self, call: impl Fn(Client) -> F) -> T {
        let mut faults = Vec::new();
        for _ in 0..4 {
            let answer = match self.client().await {
                Ok(client) => call(client).await,
                Err(status) => Err(status),
            };
            match answer {
                Ok(answer) => {
                    self.world.counts.calls.fetch_add(1, Ordering::SeqCst);
                    return answer;
                }
                // What docs/clients.md says of both: try again, here on the next server.
                Err(status) if status.code() == Code::Unavailable || was_not_sent(&status) => {
                    faults.push(status);
                    self.world.counts.moved.fetch_add(1, Ordering::SeqCst);
                    (self.position, self.client) = (self.position + 1, None);
                }
                Err(status) => panic!("{status:?}"),
            }
        }
        panic!("no server answered: {faults:?}");
    }
}

/// Tells a call that never left this process: its connection was closed while the call waited for it. tonic says Cancelled then, although
/// neither the caller nor a server has cancelled anything.
fn was_not_sent(status: &tonic::Status) -> bool {
    let sources = std::iter::successors(status.source(), |&fault| fault.source());
    sources.filter_map(|fault| fault.downcast_ref::<hyper::Error>()).any(hyper::Error::is_canceled)
}

/// Writes a resource again and again, and reads each version on the server of the next call.
async fn work(mut caller: Caller, name: String) -> usize {
    let (mut written, ends) = (0, caller.world.ends.clone());
    while !*ends.borrow() {
        written += 1;
        let mut resource = artist(&name);
        resource.metadata.insert("turn".into(), written.to_string());
        let request = pb::WriteRequest { resource: Some(resource) };
        let write = |mut client: Client| {
            let request = request.clone();
            async move { client.write(request).await }
        };
        let stored = caller.call(write).await.into_inner().resource.unwrap();
        let read = |mut client: Client| {
            let read = pb::ReadRequest { id: Some(id_of(&stored)) };
            let read = with_metadata(read, "x-mortise-at-least", &stored.version);
            async move { client.read(read).await }
        };
        let seen = caller.call(read).await;
        assert_eq!(seen.into_inner().resource.unwrap(), stored);
        if written % 16 == 0 {
            (caller.position, caller.client) = (caller.position + 1, None);
        }
    }
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_replaced_one_after_another_without_a_failed_call() {
    let Some(shared) = Shared::new() else { return };
    let mut servers = [shared.start().await, shared.start().await, shared.start().await];
    let addresses = Mutex::new(servers.iter().map(|server| server.grpc).collect());
    let (end, ends) = tokio::sync::watch::channel(false);
    let world = Arc::new(World { addresses, counts: Counts::default(), ends });
    let callers: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let caller = Caller { world: world.clone(), position: n, client: None };
            tokio::spawn(work(caller, format!("artist-{n}")))
        })
        .collect();
    let progress = async || {
        let before = world.counts.calls.load(Ordering::SeqCst);
        until("the clients work", async || match world.counts.calls.load(Ordering::SeqCst) - before {
            CALLS_OF_A_STEP.. => Ok(()),
            calls => Err(calls),
        })
        .await;
    };
    for server in &mut servers {
        progress().await;
        let old = std::mem::replace(server, shared.start().await);
        world.addresses.lock().unwrap().push(server.grpc);
        // Clients learn of its end by its end.
        assert!(old.stop().await.success());
        world.addresses.lock().unwrap().remove(0);
        progress().await;
    }
    end.send_replace(true);
    let mut written = Vec::new();
    for caller in callers {
        written.push(caller.await.unwrap());
    }
    let (calls, moved) = (world.counts.calls.load(Ordering::SeqCst), world.counts.moved.load(Ordering::SeqCst));
    println!("{calls} calls, {moved} attempts went to another server, 3 servers were replaced");
    for (n, turns) in written.into_iter().enumerate() {
        let read = pb::ReadRequest { id: artist(&format!("artist-{n}")).id };
        let read = with_metadata(read, "x-consul-consistency-mode", "consistent");
        let stored = servers[n % 3].client().read(read).await.unwrap().into_inner().resource.unwrap();
        assert_eq!(stored.metadata["turn"], turns.to_string());
    }
    members(&servers[0], 3).await;
}
