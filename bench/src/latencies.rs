//! Latencies of calls: clients, each with one call after another.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::{
    Outcome,
    calls::{Writes, artist},
    report::{Line, Unit, median, percentile},
    servers::Client,
    versus::{Rounds, Work},
};

/// Percentiles of the durations of calls, milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Latencies {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// Lets each client write artists of its own for this time.
pub(crate) async fn of_writes(writers: &[Client], length: Duration) -> Outcome<Latencies> {
    let writes = Arc::new(Writes { clients: writers.to_vec(), resource: artist });
    of(&writes, writers.len(), 0, length).await.map(|(latencies, _)| latencies)
}

/// Lets each client call for this time; `from` is the number of the first call. Returns the percentiles, and the first
/// number that no client has used.
async fn of<W: Work>(work: &Arc<W>, clients: usize, from: u64, length: Duration) -> Outcome<(Latencies, u64)> {
    let mut tasks = JoinSet::new();
    for client in 0..clients {
        let work = work.clone();
        tasks.spawn(async move {
            let (begun, mut took) = (Instant::now(), Vec::new());
            while begun.elapsed() < length {
                let sent = Instant::now();
                work.call(client, from + took.len() as u64).await?;
                took.push(sent.elapsed().as_secs_f64() * 1e3);
            }
            Outcome::Ok(took)
        });
    }
    let (mut all, mut next) = (Vec::new(), from);
    while let Some(task) = tasks.join_next().await {
        let took = task??;
        next = next.max(from + took.len() as u64);
        all.extend(took);
    }
    if all.is_empty() {
        return Err("no call came back in a whole round".into());
    }
    all.sort_by(f64::total_cmp);
    Ok((Latencies { p50: percentile(&all, 50), p99: percentile(&all, 99) }, next))
}

/// Runs both sides alternately, and prints medians of their percentiles and of the paired ratios (`ours` over
/// `theirs`).
pub(crate) async fn compare<A: Work, B: Work>(
    title: &str,
    (our_name, ours): (&str, Arc<A>),
    (their_name, theirs): (&str, Arc<B>),
    clients: usize,
    rounds: Rounds,
) -> Outcome<()> {
    let (mut our_turn, mut their_turn) = (0, 0);
    let mut figures: [Vec<f64>; 6] = Default::default();
    // The first round warms up.
    for round in 0..=rounds.count {
        let (a, b);
        // The second side finds the machine a little warmer.
        if round % 2 == 0 {
            (a, our_turn) = of(&ours, clients, our_turn, rounds.length).await?;
            (b, their_turn) = of(&theirs, clients, their_turn, rounds.length).await?;
        } else {
            (b, their_turn) = of(&theirs, clients, their_turn, rounds.length).await?;
            (a, our_turn) = of(&ours, clients, our_turn, rounds.length).await?;
        }
        if round > 0 {
            let of_round = [a.p50, b.p50, a.p50 / b.p50, a.p99, b.p99, a.p99 / b.p99];
            figures.iter_mut().zip(of_round).for_each(|(all, one)| all.push(one));
        }
    }
    let [our_p50, their_p50, p50, our_p99, their_p99, p99] = figures.map(median);
    Line::of(title)
        .clients(clients)
        .figure(format!("p50 {our_name}"), our_p50, Unit::Milliseconds)
        .figure(format!("p50 {their_name}"), their_p50, Unit::Milliseconds)
        .figure("ratio of p50", p50, Unit::Ratio)
        .figure(format!("p99 {our_name}"), our_p99, Unit::Milliseconds)
        .figure(format!("p99 {their_name}"), their_p99, Unit::Milliseconds)
        .figure("ratio of p99", p99, Unit::Ratio)
        .print()
}
