//! Queries: searches among many resources, by an index of labels or fields and without one; and the cost of filtered
//! watches to writes.
//!
//! For searches the figure is the server's own time, from each answer's plan; for watches the server's processor time
//! for a write, beside the same without watches in the same run.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use mortise_api::{QueryServiceClient, WatchServiceClient};
use mortise_plugin_demo::proto::hashicorp::consul::internal::demo::v2;
use mortise_resource::{
    data::{SearchRequest, WatchResourcesRequest, query_plan::Access},
    goten::{LabelSelector, Meta, WatchType},
    pb,
    types::Gvk,
};
use mortise_store::{Backend as _, Batch, Mutation, Options, SledBackend};
use prost::Message as _;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::{
    Outcome,
    calls::artist,
    report::{Line, Unit, line, median, percentile},
    servers::{Client, Server, channel},
    versus::Rounds,
};

/// Resources with the same label.
const ALIKE: usize = 100;
/// Resources of one commit while a store is filled.
const BATCH: usize = 1_000;
/// Searches whose median is reported.
const SEARCHES: usize = 1_000;
/// Connections that watchers share.
const CONNECTIONS: usize = 16;
/// Writers.
const WRITERS: usize = 8;

/// An artist with its name in the data, and the label also as an indexed field.
fn labelled(number: usize, label: usize) -> Outcome<pb::Resource> {
    let labels = [("shard".to_owned(), label.to_string())].into();
    let name = format!("artist-{number:07}");
    let mut artist = artist(&name);
    if let Some(data) = &mut artist.data {
        let group_members = [("lead".to_owned(), label.to_string())].into();
        data.value = v2::Artist { name, group_members, ..v2::Artist::decode(&*data.value)? }.encode_to_vec();
    }
    Ok(pb::Resource { meta: Some(Box::new(Meta { labels, ..Meta::default() })), ..artist })
}

/// Fills a store directly, without a server.
async fn fill(data: &Path, count: usize) -> Outcome<()> {
    std::fs::create_dir_all(data.join("data"))?;
    let path = data.join("data").join("store");
    let store = tokio::task::spawn_blocking(move || SledBackend::open(Options::new(path))).await??;
    for at in (0..count).step_by(BATCH) {
        let put = |number: usize| {
            let mut resource = labelled(number, number / ALIKE)?;
            resource.generation = ulid::Ulid::generate().to_string();
            if let Some(id) = &mut resource.id {
                id.uid = ulid::Ulid::generate().to_string();
                id.tenancy = Some(pb::Tenancy { partition: "default".into(), namespace: "default".into() });
            }
            Outcome::Ok(Mutation::Put(Box::new(resource)))
        };
        store.commit(Batch::new((at..(at + BATCH).min(count)).map(put).collect::<Outcome<_>>()?)).await?;
    }
    tokio::task::spawn_blocking(move || store.close()).await?;
    Ok(())
}

fn of_shard(shard: usize) -> LabelSelector {
    LabelSelector { match_labels: [("shard".to_owned(), shard.to_string())].into(), match_expressions: Vec::new() }
}

/// Runs searches that each find the resources with one label.
async fn alike(
    queries: &mut QueryServiceClient<Channel>,
    what: &str,
    rounds: usize,
    search: impl Fn(usize) -> SearchRequest,
) -> Outcome<()> {
    let mut took = Vec::new();
    for round in 0..rounds {
        let answer = queries.search(search(round)).await?.into_inner();
        let plan = answer.plan.ok_or("no plan")?;
        if answer.resources.len() != ALIKE {
            return Err(format!("{what}: {} resources instead of {ALIKE}", answer.resources.len()).into());
        }
        took.push(plan.duration_us as f64);
    }
    took.sort_by(f64::total_cmp);
    Line::of(format!("search of {ALIKE} {what}, the server's time"))
        .figure("p50", percentile(&took, 50), Unit::Microseconds)
        .figure("p99", percentile(&took, 99), Unit::Microseconds)
        .figure("searches", rounds as f64, Unit::Count)
        .print()
}

/// Searches among many resources.
pub(crate) async fn searches(resources: usize) -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    fill(dir.path(), resources).await?;
    let server = Server::mortise(dir.path(), &[]).await?;
    let mut queries = QueryServiceClient::new(channel(server.addr).await?).max_decoding_message_size(usize::MAX);
    let request = || SearchRequest {
        r#type: Some(Gvk::new("demo", "v2", "Artist").to_pb()),
        page_size: 1_000,
        explain: true,
        ..SearchRequest::default()
    };
    let by_label = |number: usize| SearchRequest { selector: Some(of_shard(number)), ..request() };
    let by_field = |number: usize| {
        let filter = format!(r#"data.group_members.lead = "{number}""#);
        SearchRequest { filter, ..request() }
    };
    // Spread all over the store.
    let shard = |round: usize| round * 7_919 % (resources / ALIKE).max(1);
    alike(&mut queries, "by a label, first", 1, |_| by_label(0)).await?;
    alike(&mut queries, "by a label, warm", SEARCHES, |round| by_label(shard(round))).await?;
    let (memory, begun) = (server.resident_mib()?, (Instant::now(), server.processor_seconds()?));
    loop {
        let answer = queries.search(by_field(0)).await?.into_inner();
        if answer.plan.ok_or("no plan")?.access() == Access::Field {
            break;
        }
    }
    Line::of(format!("indexes of two fields of {resources}"))
        .figure("there after", begun.0.elapsed().as_secs_f64(), Unit::Seconds)
        .figure("making them", server.processor_seconds()? - begun.1, Unit::ProcessorSeconds)
        .figure("memory for them", server.resident_mib()? - memory, Unit::Mebibytes)
        .print()?;
    alike(&mut queries, "by a field with an index", SEARCHES, |round| by_field(shard(round))).await?;
    for filter in [r#"data.name = "nobody""#, r#"meta.labels.shard > "999999999""#] {
        let begun = server.processor_seconds()?;
        let answer = queries.search(SearchRequest { filter: filter.into(), ..request() }).await?.into_inner();
        let plan = answer.plan.ok_or("no plan")?;
        let each = (server.processor_seconds()? - begun) * 1e6 / plan.scanned as f64;
        Line::of(format!("search of none of {resources} by {filter}"))
            .figure("all", plan.duration_us as f64 / 1e6, Unit::Seconds)
            .figure("looked at", plan.scanned as f64, Unit::Count)
            .figure("each", each, Unit::ProcessorMicroseconds)
            .print()?;
    }
    Line::of("after the searches").figure("memory", server.resident_mib()?, Unit::Mebibytes).print()?;
    server.stop().await
}

/// Opens watches, reads them without end, and returns once each has its snapshot.
async fn watch(server: &Server, requests: Vec<WatchResourcesRequest>) -> Outcome<JoinSet<u64>> {
    let connections = try_join_all((0..CONNECTIONS).map(|_| channel(server.addr))).await?;
    let mut tasks = JoinSet::new();
    for (connection, request) in connections.iter().cycle().zip(requests) {
        let mut messages = WatchServiceClient::new(connection.clone()).watch_resources(request).await?.into_inner();
        while !messages.message().await?.ok_or("a watch ended")?.is_current {}
        tasks.spawn(async move {
            let mut changes = 0;
            // Until the server stops.
            while let Ok(Some(message)) = messages.message().await {
                changes += message.changes.len() as u64;
            }
            changes
        });
    }
    Ok(tasks)
}

/// Writes for this time. Returns the number of writes, and the server's processor time for each, microseconds.
async fn write(server: &Server, writers: &[Client], length: Duration, shards: usize) -> Outcome<(usize, f64)> {
    let (before, begun) = (server.processor_seconds()?, Instant::now());
    let written = try_join_all(writers.iter().enumerate().map(|(lane, client)| async move {
        let (mut client, mut written) = (client.clone(), 0);
        while begun.elapsed() < length {
            let number = lane + written * WRITERS;
            let resource = labelled(number % shards, number % shards)?;
            client.write(pb::WriteRequest { resource: Some(resource) }).await?;
            written += 1;
        }
        Outcome::Ok(written)
    }))
    .await?;
    let written = written.into_iter().sum();
    Ok((written, (server.processor_seconds()? - before) * 1e6 / written as f64))
}

/// Measures the cost of filtered watches to writes, each of which concerns one watch.
pub(crate) async fn watches(rounds: Rounds, watchers: usize) -> Outcome<()> {
    let request = || WatchResourcesRequest {
        r#type: WatchType::Stateless.into(),
        resource_type: Some(Gvk::new("demo", "v2", "Artist").to_pb()),
        ..WatchResourcesRequest::default()
    };
    let by_label = |number: usize| WatchResourcesRequest { selector: Some(of_shard(number)), ..request() };
    let by_content =
        |number: usize| WatchResourcesRequest { filter: format!(r#"data.name = "artist-{number:07}""#), ..request() };
    // The same condition as by value, but without a required value.
    let by_range = |number: usize| WatchResourcesRequest {
        filter: format!(r#"data.name >= "artist-{number:07}" data.name <= "artist-{number:07}""#),
        ..request()
    };
    let kinds: [(&str, Vec<WatchResourcesRequest>, bool); 6] = [
        ("no watch", Vec::new(), false),
        ("one label each", (0..watchers).map(by_label).collect(), true),
        ("labels that nothing has", (0..watchers).map(|number| by_label(number + watchers)).collect(), false),
        ("one value of a field each", (0..watchers).map(by_content).collect(), true),
        ("values that nothing has", (0..watchers).map(|number| by_content(number + 1_000_000)).collect(), false),
        ("one range of a field each", (0..watchers).map(by_range).collect(), true),
    ];
    line(&format!("writes, of which each concerns one of {watchers} filtered watches"))?;
    let mut sides = Vec::new();
    for (name, requests, concerned) in kinds {
        let dir = tempfile::tempdir()?;
        let server = Server::mortise(dir.path(), &[]).await?;
        let tasks = watch(&server, requests).await?;
        let writers = server.clients(WRITERS).await?;
        sides.push((name, concerned, dir, server, tasks, writers, Vec::new(), 0));
    }
    for _ in 0..rounds.count {
        for (_, _, _, server, _, writers, costs, total) in &mut sides {
            let (written, cost) = write(server, writers, rounds.length, watchers).await?;
            costs.push(cost);
            *total += written;
        }
    }
    for (name, concerned, _dir, server, mut tasks, _, costs, total) in sides {
        server.stop().await?;
        let mut told = 0;
        while let Some(task) = tasks.join_next().await {
            told += task?;
        }
        if concerned && told == 0 {
            return Err(format!("{name}: the watches got no change").into());
        }
        Line::of(format!("write beside {watchers} watches, {name}"))
            .figure("a write", median(costs), Unit::ProcessorMicroseconds)
            .figure("writes", total as f64, Unit::Count)
            .figure("changes received", told as f64, Unit::Count)
            .print()?;
    }
    Ok(())
}
