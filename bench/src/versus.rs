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
    report::{line, median},
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

/// Runs both sides alternately and prints medians and the median of the paired ratios (`ours` over `theirs`).
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
    line(&format!(
        "{title}, {clients} client(s): {our_name} {:.0}/s, {their_name} {:.0}/s, ratio {ratio:.2}",
        median(a),
        median(b)
    ))?;
    Ok(ratio)
}
