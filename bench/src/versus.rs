//! Comparisons of two sides, which run alternately: their rates, and the ratio of these.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::{
    Outcome,
    report::{Line, Unit, median},
    servers::Server,
};

/// Number and length of the rounds of each side.
#[derive(Clone, Copy)]
pub(crate) struct Rounds {
    pub(crate) count: usize,
    pub(crate) length: Duration,
}

/// The work of clients: one call, again and again. A call gets the client's number and the number of its earlier calls.
pub(crate) trait Work: Send + Sync + 'static {
    fn call(&self, client: usize, turn: u64) -> impl Future<Output = Outcome<()>> + Send;
}

/// Measures the calls a second of `clients` clients together.
pub(crate) async fn rate<W: Work>(work: &Arc<W>, clients: usize, length: Duration) -> Outcome<f64> {
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    for client in 0..clients {
        let (work, stop, done) = (work.clone(), stop.clone(), done.clone());
        tasks.spawn(async move {
            let mut turn = 0;
            while !stop.load(Ordering::Relaxed) {
                work.call(client, turn).await?;
                turn += 1;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Ok(())
        });
    }
    tokio::time::sleep(length).await;
    let (counted, took) = (done.load(Ordering::Relaxed), begun.elapsed());
    stop.store(true, Ordering::Relaxed);
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(counted as f64 / took.as_secs_f64())
}

/// Runs both sides alternately, and prints the medians of their rates and of the paired ratios (`ours` over `theirs`).
/// Returns the last median.
pub(crate) async fn compare<A: Work, B: Work>(
    title: &str,
    (our_name, ours): (&str, Arc<A>),
    (their_name, theirs): (&str, Arc<B>),
    clients: usize,
    rounds: Rounds,
) -> Outcome<f64> {
    // Warm up: connections, caches, the first instance of each plugin slot.
    rate(&ours, clients, rounds.length / 4).await?;
    rate(&theirs, clients, rounds.length / 4).await?;
    let (mut a, mut b, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds.count {
        let theirs = rate(&theirs, clients, rounds.length).await?;
        let ours = rate(&ours, clients, rounds.length).await?;
        a.push(ours);
        b.push(theirs);
        ratios.push(ours / theirs);
    }
    let ratio = median(ratios);
    Line::of(title)
        .clients(clients)
        .figure(our_name, median(a), Unit::PerSecond)
        .figure(their_name, median(b), Unit::PerSecond)
        .figure("ratio of rates", ratio, Unit::Ratio)
        .print()?;
    Ok(ratio)
}

/// Compares two servers by [`Costs`], and prints the result.
pub(crate) async fn costs<A: Work, B: Work>(
    title: impl Into<String>,
    (a_name, a_server, a): (&'static str, &Server, &Arc<A>),
    (b_name, b_server, b): (&'static str, &Server, &Arc<B>),
    clients: usize,
    rounds: Rounds,
) -> Outcome<()> {
    let mut costs = Costs::new(title, [a_name, b_name], clients);
    costs.measure((a_server, a), (b_server, b), rounds).await?;
    costs.print()
}

/// A side's rate, and its server's processor time for an operation, µs.
async fn cost<W: Work>(server: &Server, work: &Arc<W>, clients: usize, length: Duration) -> Outcome<(f64, f64)> {
    let before = server.processor_seconds()?;
    let rate = rate(work, clients, length).await?;
    let took = server.processor_seconds()? - before;
    Ok((rate, took * 1e6 / (rate * length.as_secs_f64())))
}

/// A comparison of two servers by rate and by their processor time for an operation, the steadier figure.
pub(crate) struct Costs {
    title: String,
    names: [&'static str; 2],
    clients: usize,
    /// Figures of each round: both rates and their ratio, both times and their ratio. A ratio above 1 means that the
    /// second side is better.
    figures: [Vec<f64>; 6],
}

impl Costs {
    /// Makes a comparison without measurements.
    pub(crate) fn new(title: impl Into<String>, names: [&'static str; 2], clients: usize) -> Self {
        Self { title: title.into(), names, clients, figures: Default::default() }
    }

    /// Measures more rounds, perhaps of another pair of servers.
    pub(crate) async fn measure<A: Work, B: Work>(
        &mut self,
        (a_server, a): (&Server, &Arc<A>),
        (b_server, b): (&Server, &Arc<B>),
        rounds: Rounds,
    ) -> Outcome<()> {
        rate(a, self.clients, rounds.length / 4).await?;
        rate(b, self.clients, rounds.length / 4).await?;
        for round in 0..rounds.count {
            // The second side finds the machine a little warmer.
            let (of_a, of_b) = if round % 2 == 0 {
                let of_a = cost(a_server, a, self.clients, rounds.length).await?;
                (of_a, cost(b_server, b, self.clients, rounds.length).await?)
            } else {
                let of_b = cost(b_server, b, self.clients, rounds.length).await?;
                (cost(a_server, a, self.clients, rounds.length).await?, of_b)
            };
            let of_round = [of_a.0, of_b.0, of_b.0 / of_a.0, of_a.1, of_b.1, of_a.1 / of_b.1];
            self.figures.iter_mut().zip(of_round).for_each(|(all, one)| all.push(one));
        }
        Ok(())
    }

    /// Prints the medians of all rounds.
    pub(crate) fn print(self) -> Outcome<()> {
        let Self { title, names: [a, b], clients, figures } = self;
        let [a_rate, b_rate, slower, a_cost, b_cost, dearer] = figures.map(median);
        Line::of(title)
            .clients(clients)
            .figure(a, a_rate, Unit::PerSecond)
            .figure(b, b_rate, Unit::PerSecond)
            .figure(format!("rate of {b} over {a}"), slower, Unit::Ratio)
            .figure(a, a_cost, Unit::ProcessorMicroseconds)
            .figure(b, b_cost, Unit::ProcessorMicroseconds)
            .figure(format!("cost of {a} over {b}"), dearer, Unit::Ratio)
            .print()
    }
}
