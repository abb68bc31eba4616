//! Fan-out: every change of 100 resources to many watchers of all of them, and the time to open these watches. Beside
//! the server that does nothing, whose watchers each get an event of their own, encoded for them.
//!
//! The resources are written in bursts, and then one after the other: a write begins when every watcher has the event
//! of the one before it, as a person's changes come. Either way no watcher falls behind, and every event is counted.
//! The watchers are in this process, on the same machine, and decode the events; so the server's processor time for an
//! event is the most useful figure.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use mortise_resource::pb::{self, watch_event::Event};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};

use crate::{
    Outcome,
    calls::{artist, fill, watch_artists},
    report::{Line, Unit, median, percentile},
    servers::{Client, Server},
    versus::Rounds,
};

/// Resources that are watched and written.
pub(crate) const RESOURCES: usize = 100;
/// Connections that watchers share.
const CONNECTIONS: usize = 16;
/// The same, while resources are written one after the other.
const FEW_CONNECTIONS: usize = 4;
/// Interval between two watchers that report the delays of events.
const SAMPLE: usize = 16;

/// Order of the writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    /// Every resource at once.
    Bursts,
    /// The next resource once every watcher has the event of the last one.
    OneByOne,
}

impl Pattern {
    fn connections(self) -> usize {
        match self {
            Self::Bursts => CONNECTIONS,
            Self::OneByOne => FEW_CONNECTIONS,
        }
    }

    /// Number of resources that are written before the watchers are waited for.
    fn writes(self) -> usize {
        match self {
            Self::Bursts => RESOURCES,
            Self::OneByOne => 1,
        }
    }
}

/// The events of all watchers.
#[derive(Default)]
struct Progress {
    received: AtomicU64,
    /// Number of events of all writes so far.
    expected: AtomicU64,
    complete: Notify,
}

impl Progress {
    fn note(&self) {
        if self.received.fetch_add(1, Ordering::SeqCst) + 1 == self.expected.load(Ordering::SeqCst) {
            self.complete.notify_one();
        }
    }

    /// Waits until every event was received.
    async fn complete(&self) {
        while self.received.load(Ordering::SeqCst) < self.expected.load(Ordering::SeqCst) {
            self.complete.notified().await;
        }
    }
}

/// Watchers that are open.
struct Watchers {
    progress: Arc<Progress>,
    count: usize,
    opened: Duration,
    /// Start of the burst whose events arrive now.
    burst: watch::Sender<Instant>,
    tasks: JoinSet<Outcome<Vec<f64>>>,
}

impl Watchers {
    async fn open(server: &Server, count: usize, connections: usize) -> Outcome<Self> {
        let connections = server.clients(connections).await?;
        let begun = Instant::now();
        let (burst, begins) = watch::channel(begun);
        let (progress, mut tasks) = (Arc::new(Progress::default()), JoinSet::new());
        let open = |client: Client| async move {
            let mut client = client;
            let mut events = client.watch_list(watch_artists()).await?.into_inner();
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
            let (progress, begins) = (progress.clone(), begins.clone());
            tasks.spawn(async move {
                let mut delays = Vec::new();
                while let Ok(Some(_)) = events.message().await {
                    progress.note();
                    if number % SAMPLE == 0 {
                        delays.push(begins.borrow().elapsed().as_secs_f64() * 1e3);
                    }
                }
                Ok(delays)
            });
        }
        Ok(Self { progress, count, opened: took, burst, tasks })
    }

    /// Writes resources, and waits until every watcher has the events.
    async fn burst(&self, writers: &[Client], writes: std::ops::Range<usize>) -> Outcome<()> {
        self.progress.expected.fetch_add((self.count * writes.len()) as u64, Ordering::SeqCst);
        self.burst.send_replace(Instant::now());
        try_join_all(writers.iter().enumerate().map(|(lane, client)| {
            let (mut client, writes) = (client.clone(), writes.clone());
            async move {
                for i in writes.skip(lane).step_by(writers.len()) {
                    client.write(pb::WriteRequest { resource: Some(artist(&format!("artist-{i:07}"))) }).await?;
                }
                Outcome::Ok(())
            }
        }))
        .await?;
        let complete = tokio::time::timeout(Duration::from_secs(60), self.progress.complete()).await;
        complete.map_err(|_| "events are missing after a minute".into())
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
    pattern: Pattern,
    /// Number of the next write.
    next: usize,
    server: Server,
    watchers: Watchers,
    writers: Vec<Client>,
    rates: Vec<f64>,
    costs: Vec<f64>,
}

impl Side {
    async fn open(name: &'static str, server: Server, count: usize, pattern: Pattern) -> Outcome<Self> {
        let watchers = Watchers::open(&server, count, pattern.connections()).await?;
        let writers = server.clients(pattern.writes().min(8)).await?;
        Ok(Self { name, pattern, next: 0, server, watchers, writers, rates: Vec::new(), costs: Vec::new() })
    }

    async fn round(&mut self, length: Duration) -> Outcome<()> {
        let before = self.server.processor_seconds()?;
        let (begun, mut written) = (Instant::now(), 0);
        while begun.elapsed() < length || written == 0 {
            let first = self.next % RESOURCES;
            self.watchers.burst(&self.writers, first..first + self.pattern.writes()).await?;
            written += self.pattern.writes();
            self.next += self.pattern.writes();
        }
        let events = (written * self.watchers.count) as f64;
        self.rates.push(events / begun.elapsed().as_secs_f64());
        self.costs.push((self.server.processor_seconds()? - before) * 1e6 / events);
        Ok(())
    }

    async fn print(self) -> Outcome<()> {
        let Self { name, pattern, server, watchers, rates, costs, .. } = self;
        let (count, opened, memory) = (watchers.count, watchers.opened.as_secs_f64(), server.resident_mib()?);
        let delays = watchers.delays(server).await?;
        let rate = median(rates);
        let (title, since) = match pattern {
            Pattern::Bursts => ("in bursts", "p50 from the beginning of a burst"),
            Pattern::OneByOne => ("one write after the other", "p50 from the beginning of a write"),
        };
        Line::of(format!("events of {RESOURCES} resources to {count} watcher(s), {title}, {name}"))
            .figure("writes", rate / count as f64, Unit::PerSecond)
            .figure("events", rate, Unit::PerSecond)
            .figure("an event", median(costs), Unit::ProcessorMicroseconds)
            .figure(since, percentile(&delays, 50), Unit::Milliseconds)
            .figure("p99", percentile(&delays, 99), Unit::Milliseconds)
            .figure("opening all", opened, Unit::Seconds)
            .figure("memory", memory, Unit::Mebibytes)
            .print()
    }
}

/// Measures 1, 100 and 1,000 watchers in bursts, and 1,000 with one write after the other; of another build's server as
/// well, if one is given.
pub(crate) async fn measure(rounds: Rounds, other: Option<&Path>) -> Outcome<()> {
    for count in [1, 100, 1_000] {
        pattern(rounds, other, count, Pattern::Bursts).await?;
    }
    single_writes(rounds, other).await
}

/// Measures 1,000 watchers with one write after the other.
pub(crate) async fn single_writes(rounds: Rounds, other: Option<&Path>) -> Outcome<()> {
    pattern(rounds, other, 1_000, Pattern::OneByOne).await
}

async fn pattern(rounds: Rounds, other: Option<&Path>, count: usize, pattern: Pattern) -> Outcome<()> {
    let dirs = [tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?];
    let [ours, theirs, disk] = &dirs;
    let mut sides = Vec::new();
    let server = Server::mortise(ours.path(), &[]).await?;
    fill(&server, RESOURCES).await?;
    sides.push(Side::open("mortise", server, count, pattern).await?);
    sides.push(Side::open("no-op", Server::noop(RESOURCES).await?, count, pattern).await?);
    if pattern == Pattern::OneByOne {
        let durable = Server::durable_noop(disk.path(), RESOURCES).await?;
        sides.push(Side::open("no-op with a durable write", durable, count, pattern).await?);
    }
    if let Some(other) = other {
        let server = Server::of_binary(other, theirs.path(), &[]).await?;
        fill(&server, RESOURCES).await?;
        sides.push(Side::open("other", server, count, pattern).await?);
    }
    for _ in 0..rounds.count {
        for side in &mut sides {
            side.round(rounds.length).await?;
        }
    }
    for side in sides {
        side.print().await?;
    }
    Ok(())
}
