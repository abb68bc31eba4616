//! Courses of commits: writers, the commit thread, watches, scans and kept contents over the real queue, publisher and
//! hubs.
//!
//! # Checks
//! The rules of `mortise-proof`, on the record of a course: reads after an answer and after an event, reads that go
//! back, snapshots as of one commit, watches that miss, repeat or reorder, batches in parts, and threads that wait for
//! ever.

mod callers;
mod judge;
mod model;
mod record;

use std::sync::Arc;

use shuttle::thread;

use self::{callers::Callers, model::Store};
use crate::{
    dice::{below, one_in},
    engine::read::hub::HubLimits,
};

/// Bounds that no course reaches.
const WIDE: (HubLimits, usize) = (HubLimits { events: 1_000, bytes: 1 << 20 }, 1 << 20);

/// Returns bounds that some courses reach.
fn narrow() -> (HubLimits, usize) {
    (HubLimits { events: 1 + below(3), bytes: 1 << 20 }, 600 + below(3_000))
}

/// Makes a course.
pub fn run() {
    let is_narrow = one_in(4);
    let (limits, max_bytes) = if is_narrow { narrow() } else { WIDE };
    let store = Arc::new(Store::new(1 + below(3), limits, max_bytes));
    let committer = {
        let store = store.clone();
        thread::spawn(move || store.commit_until_closed())
    };
    let callers = Arc::new(Callers::new(store.clone()));
    let spawn = |work: fn(&Callers)| {
        let callers = callers.clone();
        thread::spawn(move || work(&callers))
    };
    let writers: Vec<_> = (0..1 + below(2)).map(|_| spawn(Callers::write)).collect();
    let watchers: Vec<_> = (0..1 + below(3)).map(|_| spawn(Callers::watch)).collect();
    let keeper = one_in(2).then(|| spawn(Callers::keep));
    if !one_in(4) {
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    }
    // Otherwise amid the writes.
    store.queue.close();
    committer.join().unwrap();
    watchers.into_iter().chain(keeper).for_each(|caller| caller.join().unwrap());
    judge::judge(&store.log(), &callers.record(), is_narrow);
}
