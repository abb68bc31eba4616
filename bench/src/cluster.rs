//! Servers over one etcd that waits for the disk: writes beside etcd's own transactions with the same bytes, the lag of
//! another server, what reads cost, and a server that starts without its copy. All share the machine, so rates of
//! several servers say less than processor times.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_resource::pb::{self, watch_event::Event};
use prost::Message as _;
use tonic::{Streaming, transport::Channel};

use crate::{
    Outcome,
    calls::{Reads, WRITES, Writes, artist, fill, watch_artists},
    etcd::{self, Etcd},
    latencies,
    report::{Line, Unit, line, percentile},
    servers::{Client, Server, channel},
    versus::{Rounds, Work, compare, rate},
};

/// Resources that reads read.
const NAMES: usize = 1_000;
/// Writes whose lag is measured.
const LAGS: usize = 500;
/// Clients of the reads.
const READERS: usize = 64;

/// Fields of etcd's `Compare`: the revision of a key.
#[derive(Clone, PartialEq, prost::Message)]
struct Compare {
    /// 1: greater.
    #[prost(int32, tag = "1")]
    result: i32,
    /// 2: the last modification.
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(int64, optional, tag = "6")]
    mod_revision: Option<i64>,
}

/// Fields of etcd's `PutRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// etcd's `RequestOp` with a put.
#[derive(Clone, PartialEq, prost::Message)]
struct Operation {
    #[prost(message, optional, tag = "2")]
    put: Option<Put>,
}

/// Fields of etcd's `TxnRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct Transaction {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<Operation>,
}

/// The field of etcd's `TxnResponse` that counts.
#[derive(Clone, PartialEq, prost::Message)]
struct Answer {
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

/// Transactions that compare one key and put it.
struct Transactions(Vec<Channel>);

impl Work for Transactions {
    async fn call(&self, client: usize, turn: u64) -> Outcome<()> {
        let name = format!("artist-{client}-{}", turn % 16);
        let key = name.clone().into_bytes();
        let compare = Compare { result: 1, target: 2, key: key.clone(), mod_revision: Some(-1) };
        let put = Operation { put: Some(Put { key, value: artist(&name).encode_to_vec() }) };
        let transaction = Transaction { compare: vec![compare], success: vec![put] };
        let answer: Answer = etcd::call(self.0.get(client), "/etcdserverpb.KV/Txn", transaction).await?;
        if answer.succeeded { Ok(()) } else { Err("etcd refused a transaction".into()) }
    }
}

/// Measures everything, or prints that etcd is missing.
pub(crate) async fn measure(rounds: Rounds, resources: usize) -> Outcome<()> {
    let dirs = [tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?];
    let [disk, one, two] = &dirs;
    let Some(etcd) = etcd::start(disk.path()).await? else { return Ok(()) };
    let (first, second) = (start(one.path(), &etcd).await?, start(two.path(), &etcd).await?);
    line("cluster: two servers over one etcd, 512 bytes of data")?;
    writes(rounds, &first, &etcd).await?;
    fill(&first, NAMES).await?;
    lag(&first, &second).await?;
    reads(rounds, &first, &second).await?;
    second.stop().await?;
    empty(resources, first, &etcd).await
}

async fn start(dir: &Path, etcd: &Etcd) -> Outcome<Server> {
    let endpoint = etcd.addr.to_string();
    Server::mortise(dir, &[("MORTISE_STORE_ENGINE", "etcd"), ("MORTISE_STORE_ETCD_ENDPOINTS", &endpoint)]).await
}

async fn writes(rounds: Rounds, server: &Server, etcd: &Etcd) -> Outcome<()> {
    for (clients, (title, resource)) in [1, 64].into_iter().flat_map(|clients| WRITES.map(|of| (clients, of))) {
        let mut channels = Vec::new();
        for _ in 0..clients {
            channels.push(channel(etcd.addr).await?);
        }
        let writes = Arc::new(Writes { clients: server.clients(clients).await?, resource });
        let theirs = Arc::new(Transactions(channels));
        let sides = (("mortise", writes), ("etcd", theirs));
        compare(title, sides.0.clone(), sides.1.clone(), clients, rounds).await?;
        if clients == 1 {
            latencies::compare(title, sides.0, sides.1, clients, rounds).await?;
        }
    }
    Ok(())
}

/// Measures how much later than the writer another server's watchers see a write.
async fn lag(writer: &Server, watched: &Server) -> Outcome<()> {
    let (mut writes, mut events) = (writer.client().await?, watch(watched.client().await?).await?);
    let (mut all, mut after) = (Vec::new(), Vec::new());
    for turn in 0..LAGS {
        let resource = artist(&format!("artist-{:07}", turn % NAMES));
        let name = resource.id.as_ref().map(|id| id.name.clone()).unwrap_or_default();
        let begun = Instant::now();
        let write = async {
            writes.write(pb::WriteRequest { resource: Some(resource) }).await?;
            Outcome::Ok(begun.elapsed())
        };
        let seen = async {
            loop {
                match events.message().await?.and_then(|event| event.event) {
                    Some(Event::Upsert(upsert)) if upsert.resource.as_ref().is_some_and(|r| named(r, &name)) => {
                        return Outcome::Ok(begun.elapsed());
                    }
                    Some(_) => {}
                    None => return Err("the watch ended".into()),
                }
            }
        };
        let (answered, seen) = tokio::try_join!(write, seen)?;
        all.push(seen.as_secs_f64() * 1e3);
        // The event may come before the answer.
        after.push(seen.saturating_sub(answered).as_secs_f64() * 1e3);
    }
    all.sort_by(f64::total_cmp);
    after.sort_by(f64::total_cmp);
    Line::of("a watch on another server, one write after the other")
        .figure("p50 from the beginning of a write", percentile(&all, 50), Unit::Milliseconds)
        .figure("p99", percentile(&all, 99), Unit::Milliseconds)
        .figure("p50 after its answer", percentile(&after, 50), Unit::Milliseconds)
        .figure("p99", percentile(&after, 99), Unit::Milliseconds)
        .print()
}

fn named(resource: &pb::Resource, name: &str) -> bool {
    resource.id.as_ref().is_some_and(|id| id.name == name)
}

/// Opens a watch of all artists, behind its snapshot.
async fn watch(mut client: Client) -> Outcome<Streaming<pb::WatchEvent>> {
    let mut events = client.watch_list(watch_artists()).await?.into_inner();
    while let Some(event) = events.message().await? {
        if matches!(event.event, Some(Event::EndOfSnapshot(_))) {
            return Ok(events);
        }
    }
    Err("a watch ended in its snapshot".into())
}

/// Measures reads of one server, and of two with the same clients; the processor time of a read is that of both.
async fn reads(rounds: Rounds, first: &Server, second: &Server) -> Outcome<()> {
    let mut spread = Vec::new();
    for (a, b) in first.clients(READERS / 2).await?.into_iter().zip(second.clients(READERS / 2).await?) {
        spread.extend([a, b]);
    }
    let sides = [("one server", first.clients(READERS).await?), ("two servers", spread)];
    for (name, clients) in sides {
        let reads = Arc::new(Reads { clients, resources: NAMES, resource: artist });
        rate(&reads, READERS, rounds.length / 4).await?;
        let spent = || Outcome::Ok(first.processor_seconds()? + second.processor_seconds()?);
        let length = rounds.length * u32::try_from(rounds.count)?;
        let before = spent()?;
        let rate = rate(&reads, READERS, length).await?;
        let cost = (spent()? - before) * 1e6 / (rate * length.as_secs_f64());
        Line::of(format!("Read, {name}"))
            .clients(READERS)
            .figure("reads", rate, Unit::PerSecond)
            .figure("a read", cost, Unit::ProcessorMicroseconds)
            .print()?;
    }
    Ok(())
}

/// Measures the start of a server without its copy, and with it.
async fn empty(resources: usize, first: Server, etcd: &Etcd) -> Outcome<()> {
    let begun = Instant::now();
    fill(&first, resources).await?;
    Line::of(format!("{resources} resources written"))
        .figure("took", seconds(begun.elapsed()), Unit::Seconds)
        .print()?;
    first.stop().await?;
    let dir = tempfile::tempdir()?;
    for title in ["a server that starts without its copy", "the same with its copy"] {
        let begun = Instant::now();
        let server = start(dir.path(), etcd).await?;
        let took = begun.elapsed();
        Line::of(format!("{title}, {resources} resources"))
            .figure("ready after", seconds(took), Unit::Seconds)
            .figure("took", server.processor_seconds()?, Unit::ProcessorSeconds)
            .figure("memory", server.resident_mib()?, Unit::Mebibytes)
            .print()?;
        server.stop().await?;
    }
    Ok(())
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
