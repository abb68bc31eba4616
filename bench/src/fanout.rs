//! Fan-out: every change of 100 resources to many watchers of all of them, and the time to open these watches. Beside
//! the server that does nothing, whose watchers each get an event of their own, encoded for them.
//!
//! The resources are written in bursts. The next burst begins when every watcher has the last one, so no watcher falls
//! behind and every event is counted. The watchers are in this process, on the same machine, and decode the events; so
//! the server's processor time for an event is the most useful figure.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use mortise_resource::{
    pb::{self, watch_event::Event},
    types::Gvk,
};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    Outcome,
    calls::{artist, fill},
    report::{Line, Unit, median, percentile},
    servers::{Client, Server},
    versus::Rounds,
};

/// Resources that are watched and written.
pub(crate) const RESOURCES: usize = 100;
/// Connections that watchers share.
const CONNECTIONS: usize = 16;
/// Interval between two watchers that report the delays of events.
const SAMPLE: usize = 16;

/// Watchers that are open.
struct Watchers {
    received: Arc<AtomicU64>,
    count: usize,
    opened: Duration,
    /// Start of the burst whose events arrive now.
    burst: watch::Sender<Instant>,
    tasks: JoinSet<Outcome<Vec<f64>>>,
}

impl Watchers {
    async fn open(server: &Server, count: usize) -> Outcome<Self> {
        let connections = server.clients(CONNECTIONS).await?;
        let begun = Instant::now();
        let (burst, begins) = watch::channel(begun);
        let (received, mut tasks) = (Arc::new(AtomicU64::new(0)), JoinSet::new());
        let open = |client: Client| async move {
            let mut client = client;
            let request = pb::WatchListRequest {
                r#type: Some(Gvk::new("demo", "v2", "Artist").to_pb()),
                tenancy: None,
                name_prefix: String::new(),
                after: None,
            };
            let mut events = client.watch_list(request).await?.into_inner();
            let mut seen = 0;
            while let Some(event) = events.message().await? {
                match event.event {
                    Some(Event::EndOfSnapshot(_)) if seen >= RESOURCES => return Outcome::Ok(events),
                    Some(Event::Upsert(_)) => seen += 1,
                    _ => return Err(format!("a snapshot of {seen} resources").into()),
                }
            }
            Err("a watch ended".into())
        };
        let opened = try_join_all(connections.iter().cycle().take(count).cloned().map(open)).await?;
        let took = begun.elapsed();
        for (number, mut events) in opened.into_iter().enumerate() {
            let (received, begins) = (received.clone(), begins.clone());
            tasks.spawn(async move {
                let mut delays = Vec::new();
                while let Ok(Some(_)) = events.message().await {
                    received.fetch_add(1, Ordering::Relaxed);
                    if number % SAMPLE == 0 {
                        delays.push(begins.borrow().elapsed().as_secs_f64() * 1e3);
                    }
                }
                Ok(delays)
            });
        }
        Ok(Self { received, count, opened: took, burst, tasks })
    }

    /// Writes every resource, and waits until every watcher has the events.
    async fn burst(&self, writers: &[Client]) -> Outcome<()> {
        let expected = self.received.load(Ordering::Relaxed) + (self.count * RESOURCES) as u64;
        self.burst.send_replace(Instant::now());
        try_join_all(writers.iter().enumerate().map(|(lane, client)| async move {
            let mut client = client.clone();
            for i in (lane..RESOURCES).step_by(writers.len()) {
                client.write(pb::WriteRequest { resource: Some(artist(&format!("artist-{i:07}"))) }).await?;
            }
            Outcome::Ok(())
        }))
        .await?;
        let begun = Instant::now();
        while self.received.load(Ordering::Relaxed) < expected {
            if begun.elapsed() > Duration::from_secs(60) {
                return Err("events are missing after a minute".into());
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        Ok(())
    }

    async fn delays(mut self, server: Server) -> Outcome<Vec<f64>> {
        server.stop().await?;
        let mut all = Vec::new();
        while let Some(task) = self.tasks.join_next().await {
            all.extend(task??);
        }
        all.sort_by(f64::total_cmp);
        Ok(all)
    }
}

/// The figures of one server.
struct Side {
    name: &'static str,
    server: Server,
    watchers: Watchers,
    writers: Vec<Client>,
    rates: Vec<f64>,
    costs: Vec<f64>,
}

impl Side {
    async fn open(name: &'static str, server: Server, count: usize) -> Outcome<Self> {
        let watchers = Watchers::open(&server, count).await?;
        let writers = server.clients(8).await?;
        Ok(Self { name, server, watchers, writers, rates: Vec::new(), costs: Vec::new() })
    }

    async fn round(&mut self, length: Duration) -> Outcome<()> {
        let before = self.server.processor_seconds()?;
        let (begun, mut bursts) = (Instant::now(), 0);
        while begun.elapsed() < length || bursts == 0 {
            self.watchers.burst(&self.writers).await?;
            bursts += 1;
        }
        let events = (bursts * self.watchers.count * RESOURCES) as f64;
        self.rates.push(events / begun.elapsed().as_secs_f64());
        self.costs.push((self.server.processor_seconds()? - before) * 1e6 / events);
        Ok(())
    }

    async fn print(self) -> Outcome<()> {
        let Self { name, server, watchers, rates, costs, .. } = self;
        let (count, opened, memory) = (watchers.count, watchers.opened.as_secs_f64(), server.resident_mib()?);
        let delays = watchers.delays(server).await?;
        Line::of(format!("events of {RESOURCES} resources to {count} watcher(s), {name}"))
            .figure("events", median(rates), Unit::PerSecond)
            .figure("an event", median(costs), Unit::ProcessorMicroseconds)
            .figure("p50 from the beginning of a burst", percentile(&delays, 50), Unit::Milliseconds)
            .figure("p99", percentile(&delays, 99), Unit::Milliseconds)
            .figure("opening all", opened, Unit::Seconds)
            .figure("memory", memory, Unit::Mebibytes)
            .print()
    }
}

/// Measures 1, 100 and 1,000 watchers; of another build's server as well, if one is given.
pub(crate) async fn measure(rounds: Rounds, other: Option<&std::path::Path>) -> Outcome<()> {
    for count in [1, 100, 1_000] {
        let dirs = [tempfile::tempdir()?, tempfile::tempdir()?];
        let [ours, theirs] = &dirs;
        let mut sides = Vec::new();
        let server = Server::mortise(ours.path(), &[]).await?;
        fill(&server, RESOURCES).await?;
        sides.push(Side::open("mortise", server, count).await?);
        sides.push(Side::open("no-op", Server::noop(RESOURCES).await?, count).await?);
        if let Some(other) = other {
            let server = Server::of_binary(other, theirs.path(), &[]).await?;
            fill(&server, RESOURCES).await?;
            sides.push(Side::open("other", server, count).await?);
        }
        for _ in 0..rounds.count {
            for side in &mut sides {
                side.round(rounds.length).await?;
            }
        }
        for side in sides {
            side.print().await?;
        }
    }
    Ok(())
}
