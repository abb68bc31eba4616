//! ScanResult scans: what a walk saw, corrected to the state of one commit (the argument stands in [`publisher`](crate::engine::read::publisher)).
//!
//! A scan runs on the caller's task while it is short. One that turns out long moves to a blocking thread, so that it
//! does not hold up other tasks; only a few run at once, since each holds its result in memory, and as much of what is not in
//! the tree yet as there was when it began to run.

use std::sync::Arc;

use mortise_resource::pb;
use tokio::sync::broadcast;

use crate::engine::{
    Shared,
    read::{
        filter::Filter,
        publisher::{States, Window},
        walk::{Match, Walk},
    },
    tree::table::{Decoder, Payload, Table},
};
use crate::{StoreError, TypeKey, WatchEvent};

/// Keys that are looked at on the caller's task: 64 take some 50 µs, about what moving to another thread and back costs.
const INLINE_KEYS: usize = 64;
/// Keys after which a long scan looks whether anybody still waits for it.
const STRIDE: usize = 1_024;

/// The state of one commit, and, of a watch, every event after it.
pub(crate) struct ScanResult {
    /// In key order.
    pub(crate) items: Vec<Match>,
    /// Set when asked for.
    pub(crate) events: Option<broadcast::Receiver<WatchEvent>>,
}

struct Scan {
    table: Table,
    window: Window,
    walk: Walk,
    found: Vec<Match>,
}

impl Scan {
    fn step(&mut self, keys: usize) -> Result<bool, StoreError> {
        self.walk.step(keys, &mut self.found)
    }

    fn finish(self, watch: Option<&TypeKey>) -> Result<ScanResult, StoreError> {
        let (states, events) = self.window.close(watch)?;
        Ok(ScanResult { items: merge(&self.table, self.found, states)?, events })
    }
}

/// Scans, and gives the result to `then`, on the thread that scanned.
pub(crate) async fn exact<T: Send + 'static>(
    shared: &Arc<Shared>,
    filter: Filter,
    watch: Option<TypeKey>,
    then: impl FnOnce(&Decoder, ScanResult) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    // The window first: what changes after it is noted, what the walk sees is no older.
    let window = shared.publisher.open_window(filter.clone());
    let table = shared.table.clone();
    let walk = Walk::new(table.clone(), &filter);
    let mut scan = Scan { table: table.clone(), window, walk, found: Vec::new() };
    if scan.step(INLINE_KEYS)? {
        return then(table.decoder(), scan.finish(watch.as_ref())?);
    }
    // Whoever waits holds no more than what it found so far.
    scan.walk.rest();
    let permit = shared.long_scans.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
    // Goes with this call, be it answered or given up.
    let wanted = Arc::new(());
    let asked = Arc::downgrade(&wanted);
    let long = tokio::task::spawn_blocking(move || {
        // Held as long as this runs, also when nobody waits for it any more; then it ends soon.
        let _permit = permit;
        while !scan.step(STRIDE)? {
            if asked.strong_count() == 0 {
                return Err(StoreError::Closed);
            }
        }
        then(table.decoder(), scan.finish(watch.as_ref())?)
    });
    let ended = long.await;
    drop(wanted);
    match ended {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is going down.
        Err(_) => Err(StoreError::Closed),
    }
}

/// Both inputs are in key order; `states` overrides `found`.
fn merge(table: &Table, found: Vec<Match>, states: States) -> Result<Vec<Match>, StoreError> {
    let whole = |found: &Match| match found.payload {
        Payload::Torn => Err(table.damaged(&found.key, "a part of it is missing")),
        _ => Ok(()),
    };
    if states.is_empty() {
        found.iter().try_for_each(whole)?;
        return Ok(found);
    }
    let live = |(key, state): (Vec<u8>, Option<Arc<pb::Resource>>)| {
        state.map(|resource| Match { key: key.into(), payload: Payload::Live(resource) })
    };
    let mut items = Vec::with_capacity(found.len() + states.len());
    let mut states = states.into_iter().peekable();
    for found in found {
        while let Some(state) = states.next_if(|(key, _)| *key.as_slice() < *found.key) {
            items.extend(live(state));
        }
        if let Some(state) = states.next_if(|(key, _)| *key.as_slice() == *found.key) {
            items.extend(live(state));
        } else {
            whole(&found)?;
            items.push(found);
        }
    }
    items.extend(states.filter_map(live));
    Ok(items)
}

impl Match {
    /// The resource, to keep.
    pub(crate) fn into_resource(self, decoder: &Decoder) -> Result<pb::Resource, StoreError> {
        match self.payload {
            Payload::Live(resource) => Ok(Arc::unwrap_or_clone(resource)),
            payload => decoder.decode(&self.key, &payload),
        }
    }

    /// The resource, to share.
    pub(crate) fn into_shared(self, decoder: &Decoder) -> Result<Arc<pb::Resource>, StoreError> {
        match self.payload {
            Payload::Live(resource) => Ok(resource),
            payload => decoder.decode(&self.key, &payload).map(Arc::new),
        }
    }
}
