//! Read, Write and List against the server that does nothing. Writes are durable, and pass mutate, validate and
//! authorize in a fresh instance of a guest each, or no hook; reads and lists are of the demo plugin's type, whose
//! authorisation is declared. "Read through a hook" asks the guest each time: no decision is remembered.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use mortise_plugin_demo::proto::hashicorp::consul::internal::demo::v2;
use mortise_resource::{pb, types::Gvk};
use prost::Message as _;

use crate::{
    Outcome,
    report::{Line, Unit, line},
    servers::{Client, Server},
    versus::{Rounds, Work, costs},
};

/// Bytes of data in a resource.
const DATA: usize = 512;

/// Resources that reads read and writes rewrite.
const NAMES: usize = 1_000;

/// Clients that list these resources at once.
const LISTERS: usize = 4;

/// A `demo.v2.Artist` with 512 bytes of data.
pub(crate) fn artist(name: &str) -> pb::Resource {
    let mut data =
        v2::Artist { name: "The Measured".into(), genre: v2::Genre::Jazz.into(), group_members: BTreeMap::new() };
    for i in 0.. {
        let missing = DATA.saturating_sub(data.encoded_len());
        if missing < 24 {
            data.name.push_str(&"x".repeat(missing));
            break;
        }
        data.group_members.insert(format!("member-{i:02}"), "x".repeat((missing - 20).min(40)));
    }
    pb::Resource {
        id: Some(pb::Id {
            uid: String::new(),
            name: name.to_owned(),
            r#type: Some(Gvk::new("demo", "v2", "Artist").to_pb()),
            tenancy: None,
        }),
        data: Some(prost_types::Any {
            type_url: "type.googleapis.com/hashicorp.consul.internal.demo.v2.Artist".into(),
            value: data.encode_to_vec(),
        }),
        ..pb::Resource::default()
    }
}

/// An [`artist`]'s data, of the type with every hook in its guest.
pub(crate) fn hooked(name: &str) -> pb::Resource {
    artist_of("every_hook", name)
}

/// An [`artist`]'s data, of the type without hooks.
fn unhooked(name: &str) -> pb::Resource {
    artist_of("no_hook", name)
}

/// An [`artist`]'s data, of the type of a test guest.
fn artist_of(group: &str, name: &str) -> pb::Resource {
    let mut resource = artist(name);
    if let Some(id) = &mut resource.id {
        id.r#type = Some(Gvk::new(group, "v1", "Artist").to_pb());
    }
    resource
}

/// Returns the request of a watch of all artists.
pub(crate) fn watch_artists() -> pb::WatchListRequest {
    pb::WatchListRequest {
        r#type: Some(Gvk::new("demo", "v2", "Artist").to_pb()),
        tenancy: None,
        name_prefix: String::new(),
        after: None,
    }
}

/// The name of the resource for a client's turn: clients avoid each other's resources, as 64 different users would.
pub(crate) fn name(client: usize, turn: u64, of: usize) -> String {
    // A stride that visits every name before it repeats one.
    let step = turn.wrapping_mul(7919).wrapping_add(client as u64 * 104_729);
    format!("artist-{:07}", step % of as u64)
}

pub(crate) struct Reads {
    pub(crate) clients: Vec<Client>,
    pub(crate) resources: usize,
    /// Maker of the resources whose ids are read.
    pub(crate) resource: MakeResource,
}

impl Work for Reads {
    async fn call(&self, client: usize, turn: u64) -> Outcome<()> {
        let id = (self.resource)(&name(client, turn, self.resources)).id;
        let mut stub = self.clients.get(client).ok_or("no such client")?.clone();
        stub.read(pb::ReadRequest { id }).await?;
        Ok(())
    }
}

pub(crate) struct Writes {
    pub(crate) clients: Vec<Client>,
    pub(crate) resource: MakeResource,
}

/// Makes the resource of a name.
pub(crate) type MakeResource = fn(&str) -> pb::Resource;

/// Writes with all hooks and without any: their names in the output, and their resources.
pub(crate) const WRITES: [(&str, MakeResource); 2] = [("Write", hooked), ("Write without hooks", unhooked)];

impl Work for Writes {
    async fn call(&self, client: usize, turn: u64) -> Outcome<()> {
        let resource = (self.resource)(&format!("artist-{client}-{}", turn % 16));
        let mut stub = self.clients.get(client).ok_or("no such client")?.clone();
        stub.write(pb::WriteRequest { resource: Some(resource) }).await?;
        Ok(())
    }
}

struct Lists(Vec<Client>);

impl Work for Lists {
    async fn call(&self, client: usize, _: u64) -> Outcome<()> {
        let mut stub = self.0.get(client).ok_or("no such client")?.clone();
        stub.list(pb::ListRequest {
            r#type: Some(Gvk::new("demo", "v2", "Artist").to_pb()),
            tenancy: Some(pb::Tenancy::default()),
            name_prefix: String::new(),
        })
        .await?;
        Ok(())
    }
}

/// Clients that fill a server at once.
const LANES: usize = 64;

/// Writes `count` artists over the wire.
pub(crate) async fn fill(server: &Server, count: usize) -> Outcome<()> {
    fill_with(server, count, artist).await
}

/// Writes `count` resources that `resource` makes from their names.
async fn fill_with(server: &Server, count: usize, resource: MakeResource) -> Outcome<()> {
    let clients = server.clients(LANES).await?;
    let mut tasks = tokio::task::JoinSet::new();
    for (lane, mut client) in clients.into_iter().enumerate() {
        tasks.spawn(async move {
            for i in (lane..count).step_by(LANES) {
                client.write(pb::WriteRequest { resource: Some(resource(&format!("artist-{i:07}"))) }).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}

/// Measures Read and Write, or Write alone.
pub(crate) async fn calls(rounds: Rounds, only_writes: bool) -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let (ours, ceiling) = (Server::mortise(dir.path(), &[]).await?, Server::noop(0).await?);
    let durable = Server::durable_noop(dir.path(), 0).await?;
    fill(&ours, NAMES).await?;
    line(&format!("calls: {DATA} bytes of data, {NAMES} resources, all hooks; ceiling: a no-op tonic server"))?;
    for clients in [1, 64].into_iter().filter(|_| !only_writes) {
        let reads = async |server: &Server| {
            Outcome::Ok(Arc::new(Reads { clients: server.clients(clients).await?, resources: NAMES, resource: artist }))
        };
        let (a, b) = (reads(&ours).await?, reads(&ceiling).await?);
        costs("Read", ("mortise", &ours, &a), ("ceiling", &ceiling, &b), clients, rounds).await?;
    }
    for (clients, (title, resource)) in [1, 64].into_iter().flat_map(|clients| WRITES.map(|of| (clients, of))) {
        let writes =
            async |server: &Server| Outcome::Ok(Arc::new(Writes { clients: server.clients(clients).await?, resource }));
        let (a, b, c) = (writes(&ours).await?, writes(&ceiling).await?, writes(&durable).await?);
        costs(title, ("mortise", &ours, &a), ("ceiling", &ceiling, &b), clients, rounds).await?;
        costs(title, ("mortise", &ours, &a), ("durable ceiling", &durable, &c), clients, rounds).await?;
    }
    ours.stop().await?;
    if only_writes { Ok(()) } else { hooked_reads(rounds).await }
}

/// Measures Read and Write of this build's server against those of another build's server.
pub(crate) async fn against(rounds: Rounds, other: &Path) -> Outcome<()> {
    let dirs = [tempfile::tempdir()?, tempfile::tempdir()?];
    let [a, b] = &dirs;
    let (ours, theirs) = (Server::mortise(a.path(), &[]).await?, Server::of_binary(other, b.path(), &[]).await?);
    for server in [&ours, &theirs] {
        fill(server, NAMES).await?;
    }
    line(&format!("against {}: {DATA} bytes of data, {NAMES} resources, all hooks", other.display()))?;
    for clients in [1, 64] {
        let reads = async |server: &Server| {
            Outcome::Ok(Arc::new(Reads { clients: server.clients(clients).await?, resources: NAMES, resource: artist }))
        };
        let (a, b) = (reads(&ours).await?, reads(&theirs).await?);
        costs("Read", ("this", &ours, &a), ("other", &theirs, &b), clients, rounds).await?;
        for (title, resource) in WRITES {
            let writes = async |server: &Server| {
                Outcome::Ok(Arc::new(Writes { clients: server.clients(clients).await?, resource }))
            };
            let (a, b) = (writes(&ours).await?, writes(&theirs).await?);
            costs(title, ("this", &ours, &a), ("other", &theirs, &b), clients, rounds).await?;
        }
    }
    let lists = async |server: &Server| Outcome::Ok(Arc::new(Lists(server.clients(LISTERS).await?)));
    let (a, b) = (lists(&ours).await?, lists(&theirs).await?);
    costs(format!("List of {NAMES}"), ("this", &ours, &a), ("other", &theirs, &b), LISTERS, rounds).await?;
    ours.stop().await?;
    theirs.stop().await
}

/// Measures Read of a type whose guest decides about each read.
async fn hooked_reads(rounds: Rounds) -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    let ours = Server::mortise(dir.path(), &[("MORTISE_TEST_LIMITS", "remembered_decisions = 0")]).await?;
    let ceiling = Server::noop(0).await?;
    fill_with(&ours, NAMES, hooked).await?;
    for clients in [1, 64] {
        let reads = async |server: &Server| {
            Outcome::Ok(Arc::new(Reads { clients: server.clients(clients).await?, resources: NAMES, resource: hooked }))
        };
        let (a, b) = (reads(&ours).await?, reads(&ceiling).await?);
        costs("Read through a hook", ("mortise", &ours, &a), ("ceiling", &ceiling, &b), clients, rounds).await?;
    }
    ours.stop().await
}

/// Measures List.
pub(crate) async fn lists(rounds: Rounds) -> Outcome<()> {
    for count in [1_000, 100_000] {
        let dir = tempfile::tempdir()?;
        let (ours, ceiling) = (Server::mortise(dir.path(), &[]).await?, Server::noop(count).await?);
        fill(&ours, count).await?;
        let clients = if count > NAMES { 1 } else { LISTERS };
        let lists = async |server: &Server| Outcome::Ok(Arc::new(Lists(server.clients(clients).await?)));
        let (a, b) = (lists(&ours).await?, lists(&ceiling).await?);
        let title = format!("List of {count}");
        costs(title, ("mortise", &ours, &a), ("ceiling", &ceiling, &b), clients, rounds).await?;
        Line::of(format!("memory after List of {count}"))
            .figure("mortise", ours.resident_mib()?, Unit::Mebibytes)
            .print()?;
        ours.stop().await?;
    }
    Ok(())
}
