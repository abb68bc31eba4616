//! Replicas between two regions: a snapshot of many resources, changes as they are written, the delay of a single
//! change, and the recovery of a region after an absence. The owner and the other region share the machine.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use mortise_api::RegionServiceClient;
use mortise_resource::{
    data::{PeerState, PeerType, RegionStatusRequest},
    goten::MultiRegionPolicy,
    pb,
    proto::hashicorp::consul::tenancy::v2beta1::Partition,
    types,
};
use prost::Message as _;
use tokio::time::sleep;
use tonic::transport::Channel;

use crate::{
    Outcome,
    calls::{artist, fill},
    report::{Line, Unit, median},
    servers::{Server, channel},
};

/// Writes whose replicas are awaited one by one.
const SINGLE_WRITES: usize = 200;
/// Longest wait for an expected state.
const SYNC_TIMEOUT: Duration = Duration::from_secs(1_800);

/// Starts a server of a region, which pulls from the peer if one is given.
async fn region(dir: &Path, name: &str, peer: Option<(&str, &Server)>) -> Outcome<Server> {
    let mut config = format!("[region]\nname = {name:?}\nmax_backoff_ms = 1000\n");
    if let Some((peer, server)) = peer {
        config.push_str(&format!("[region.peers.{peer}]\naddress = \"http://{}\"\n", server.addr));
    }
    let file = dir.join("config.toml");
    std::fs::write(&file, config)?;
    let file = file.to_str().ok_or("no path")?;
    // A machine with two servers and 64 clients may delay a hook.
    let env = [("MORTISE_CONFIG", file), ("MORTISE_SANDBOX_DEADLINE_MS", "5000")];
    let server = Server::mortise(dir, &env).await?;
    // Resources in the partition `default` belong to eu.
    let policy = MultiRegionPolicy {
        enabled_regions: vec!["eu".into(), "us".into()],
        default_control_region: "eu".into(),
        ..MultiRegionPolicy::default()
    };
    let data = Partition { description: String::new(), multi_region_policy: Some(policy) };
    let data = prost_types::Any {
        type_url: "type.googleapis.com/hashicorp.consul.tenancy.v2beta1.Partition".into(),
        value: data.encode_to_vec(),
    };
    let id = pb::Id { name: "default".into(), r#type: Some(types::partition().to_pb()), ..pb::Id::default() };
    let resource = Some(pb::Resource { id: Some(id), data: Some(data), ..pb::Resource::default() });
    server.client().await?.write(pb::WriteRequest { resource }).await?;
    Ok(server)
}

/// Returns the progress of the replicas of artists.
async fn artists(client: &mut RegionServiceClient<Channel>) -> Outcome<PeerType> {
    let status = client.status(RegionStatusRequest {}).await?.into_inner();
    let mut types = status.peers.into_iter().flat_map(|peer| peer.types);
    let is_artist = |one: &PeerType| one.r#type.as_ref().is_some_and(|of| of.kind == "Artist" && of.group == "demo");
    Ok(types.find(is_artist).unwrap_or_default())
}

/// Waits until the replicas are current, and at least this number of changes was applied.
async fn applied(server: &Server, count: u64) -> Outcome<()> {
    let mut client = RegionServiceClient::new(channel(server.addr).await?);
    let begun = Instant::now();
    while begun.elapsed() < SYNC_TIMEOUT {
        let now = artists(&mut client).await?;
        if now.state() == PeerState::Current && now.applied >= count {
            return Ok(());
        }
        sleep(Duration::from_millis(2)).await;
    }
    Err("the copies are not current in time".into())
}

async fn write(server: &Server, name: &str) -> Outcome<pb::Resource> {
    let request = pb::WriteRequest { resource: Some(artist(name)) };
    Ok(server.client().await?.write(request).await?.into_inner().resource.unwrap_or_default())
}

/// Measures from the answer to the owner's write until the replica can be read; milliseconds.
async fn single(eu: &Server, us: &Server) -> Outcome<Vec<f64>> {
    let (mut owner, mut other) = (eu.client().await?, us.client().await?);
    let mut took = Vec::new();
    for number in 0..SINGLE_WRITES {
        let resource = Some(artist(&format!("single-{number}")));
        let written = owner.write(pb::WriteRequest { resource }).await?.into_inner().resource.unwrap_or_default();
        let begun = Instant::now();
        while other.read(pb::ReadRequest { id: written.id.clone() }).await.is_err() {
            if begun.elapsed() > SYNC_TIMEOUT {
                return Err("a copy is not there in time".into());
            }
        }
        took.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(took)
}

/// Measures everything with this number of resources.
pub(crate) async fn measure(resources: usize) -> Outcome<()> {
    let (eu_dir, us_dir) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let eu = region(eu_dir.path(), "eu", None).await?;
    let begun = Instant::now();
    fill(&eu, resources).await?;
    let written = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let us = region(us_dir.path(), "us", Some(("eu", &eu))).await?;
    applied(&us, resources as u64).await?;
    let took = begun.elapsed().as_secs_f64();
    Line::of(format!("a region's first snapshot of {resources} resources"))
        .figure("copies", resources as f64 / took, Unit::PerSecond)
        .figure("after", took, Unit::Seconds)
        .figure("writes of 64 clients before", resources as f64 / written, Unit::PerSecond)
        .figure("memory of the region", us.resident_mib()?, Unit::Mebibytes)
        .print()?;

    // All resources once more, as changes that the region gets at once.
    let begun = Instant::now();
    fill(&eu, resources).await?;
    let written = begun.elapsed().as_secs_f64();
    let last = write(&eu, "zz-last").await?;
    let behind = Instant::now();
    let mut other = us.client().await?;
    while other.read(pb::ReadRequest { id: last.id.clone() }).await.is_err() {
        sleep(Duration::from_millis(1)).await;
    }
    Line::of(format!("{resources} changes while the region is current"))
        .figure("writes of 64 clients", resources as f64 / written, Unit::PerSecond)
        .figure("the last is there after", behind.elapsed().as_secs_f64() * 1e3, Unit::Milliseconds)
        .figure("copies, from the first write on", resources as f64 / begun.elapsed().as_secs_f64(), Unit::PerSecond)
        .print()?;

    let mut took = single(&eu, &us).await?;
    took.sort_by(f64::total_cmp);
    let p99 = took.get(took.len() * 99 / 100).copied().unwrap_or_default();
    Line::of("one write at a time, until its copy can be read")
        .figure("p50", median(took), Unit::Milliseconds)
        .figure("p99", p99, Unit::Milliseconds)
        .print()?;

    us.stop().await?;
    // The owner keeps 10,000 events: the first absence is shorter than that, the second one longer.
    for away in [resources / 20, resources / 5].map(|away| away.max(1)) {
        fill(&eu, away).await?;
        let begun = Instant::now();
        let us = region(us_dir.path(), "us", Some(("eu", &eu))).await?;
        let ready = us.ready_after.as_secs_f64();
        applied(&us, 1).await?;
        let took = begun.elapsed().as_secs_f64() - ready;
        let mut client = RegionServiceClient::new(channel(us.addr).await?);
        let snapshots = artists(&mut client).await?.snapshots;
        Line::of(format!("{away} changes while the region was away"))
            .figure("current after its start", took, Unit::Seconds)
            .figure("copies", away as f64 / took, Unit::PerSecond)
            .figure("snapshots", snapshots as f64, Unit::Count)
            .print()?;
        us.stop().await?;
    }
    eu.stop().await
}
