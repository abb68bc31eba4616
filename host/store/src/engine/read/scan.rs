//! Exact scans, in bounded steps: a walk's records, corrected to the state of one commit
//! ([`publisher`](crate::engine::read::publisher) has the proof).
//!
//! One cursor serves a list, which reads it to the end at once, the initial content of a watch, and
//! [`Backend::scan`](crate::Backend::scan). A snapshot of the whole store ([`snapshot`](crate::engine::read::snapshot))
//! works differently: it includes the history, is read for hours, and so keeps saved records on disk.
//!
//! # Cost
//! The first step runs on the caller's task. A longer scan continues on a blocking thread, so that it does not block
//! other tasks; only a few steps run at once. Scans that end with their second step do not wait behind longer ones,
//! which may run on threads of low priority: a blocking thread belongs to the runtime in whose context the caller makes
//! the step. Between steps a cursor holds neither the table nor the maps in front of its tree, so a forgotten cursor
//! keeps neither the database open nor the directory locked.

use std::sync::Arc;

use mortise_resource::{EncodedResource, pb};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinError,
};

use crate::{
    Position, StoreError,
    engine::{
        read::{
            cursor::{Page, SledCursor, State},
            filter::Filter,
            form::{Form, Parsed},
            publisher::{OverwriteWindow, Publisher, States, SubscribeRequest, Subscription},
            walk::{Match, StepLimit, Walk},
        },
        tree::table::{Decoder, Payload, Table},
    },
};

/// Limit of a step on the caller's task: 64 keys take some 50 µs, about the cost of moving to another thread and back.
pub(super) const FIRST_STEP_LIMIT: StepLimit = StepLimit { keys: 64, bytes: 256 << 10 };
/// Limit of a step on a blocking thread; after each the scan checks whether its caller still waits.
pub(super) const LONG_STEP_LIMIT: StepLimit = StepLimit { keys: 1_024, bytes: 1 << 20 };
/// Steps that may run at once on blocking threads: this many second steps, and this many later ones.
const LONG_STEPS: usize = 4;

/// Scanner of a store: starts scans and watches.
pub(crate) struct Scanner {
    table: Table,
    publisher: Arc<Publisher>,
    second_steps: Arc<Semaphore>,
    later_steps: Arc<Semaphore>,
}

/// Progress of an exact scan.
pub(super) struct ScanPosition {
    walk: Walk,
    window: OverwriteWindow,
}

impl ScanPosition {
    /// Returns the next resources, in key order, and whether the end is reached.
    fn step(&mut self, table: &Table, limit: StepLimit) -> Result<(Vec<Match>, bool), StoreError> {
        let mut found = Vec::with_capacity(limit.keys);
        let ended = self.walk.step(table, limit, &mut found)?;
        let states = match (ended, found.last()) {
            (true, _) => self.window.pass(None)?,
            (false, Some(last)) => self.window.pass(Some(&last.key))?,
            (false, None) => States::new(),
        };
        Ok((merge(found, states), ended))
    }
}

impl Scanner {
    /// Makes a scanner of a table to which `publisher` publishes.
    pub(crate) fn new(table: Table, publisher: Arc<Publisher>) -> Self {
        let steps = || Arc::new(Semaphore::new(LONG_STEPS));
        Self { table, publisher, second_steps: steps(), later_steps: steps() }
    }

    /// Starts a scan. The window is opened first, so that the walk sees no older state than the window's.
    fn begin(&self, filter: Filter) -> ScanPosition {
        ScanPosition { walk: Walk::new(&filter), window: self.publisher.open_window(filter) }
    }

    /// Returns all matching resources, as of one commit, in key order.
    pub(crate) async fn list(&self, filter: Filter) -> Result<Vec<pb::Resource>, StoreError> {
        let (mut position, mut resources) = (self.begin(filter), Vec::new());
        let decode = |matches: Vec<Match>, decoder: &Decoder, resources: &mut Vec<pb::Resource>| {
            matches.into_iter().try_for_each(|found| {
                resources.push(decoder.decode(&found.key, found.payload)?);
                Ok::<_, StoreError>(())
            })
        };
        let (matches, ended) = position.step(&self.table, FIRST_STEP_LIMIT)?;
        decode(matches, self.table.decoder(), &mut resources)?;
        if ended {
            return Ok(resources);
        }
        position.walk.rest();
        let permit = permit(&self.later_steps).await?;
        // Dropped when this call ends or is cancelled.
        let caller = Arc::new(());
        let waiting = Arc::downgrade(&caller);
        let table = self.table.clone();
        let rest = tokio::task::spawn_blocking(move || {
            // Held as long as this runs, even after the caller is gone; then it ends soon.
            let _permit = permit;
            loop {
                let (matches, ended) = position.step(&table, LONG_STEP_LIMIT)?;
                decode(matches, table.decoder(), &mut resources)?;
                if ended {
                    return Ok(resources);
                }
                if waiting.strong_count() == 0 {
                    return Err(StoreError::Closed);
                }
            }
        });
        let resources = rest.await;
        drop(caller);
        resources.unwrap_or_else(|error| Err(interrupted(error)))
    }

    /// Makes a cursor over the present matches.
    pub(crate) fn cursor<F: Form>(self: &Arc<Self>, filter: Filter, form: F) -> SledCursor<F> {
        SledCursor::new(Arc::downgrade(self), form, Box::new(self.begin(filter)))
    }

    /// Makes a cursor over the present matches, and subscribes to the events of a type from the same commit on, whose
    /// position is returned, too.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub(crate) fn watch(
        self: &Arc<Self>,
        filter: Filter,
        wanted: &SubscribeRequest<'_>,
    ) -> Result<(SledCursor<Parsed>, Subscription, Position), StoreError> {
        let walk = Walk::new(&filter);
        let (window, subscription, position) = self.publisher.subscribe(filter, wanted)?;
        let cursor = SledCursor::new(Arc::downgrade(self), Parsed, Box::new(ScanPosition { walk, window }));
        Ok((cursor, subscription, position))
    }

    /// Runs a long read on a blocking thread, a few at once.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: Arc<Self>,
        read: impl FnOnce(&Table) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = permit(&self.later_steps).await?;
        let reading = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            read(&self.table)
        });
        reading.await.unwrap_or_else(|error| Err(interrupted(error)))
    }

    /// Subscribes to the events of a type without a scan; also returns the position of the last earlier event.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub(crate) fn follow(&self, wanted: &SubscribeRequest<'_>) -> Result<(Subscription, Position), StoreError> {
        self.publisher.follow(wanted)
    }

    /// Makes one step, and the page of its resources.
    pub(super) fn page<F: Form>(
        &self,
        mut position: Box<ScanPosition>,
        limit: StepLimit,
        form: &F,
    ) -> Result<Page<F::Item>, StoreError> {
        let (matches, ended) = position.step(&self.table, limit)?;
        position.walk.rest();
        let next = if ended { State::Ended } else { State::Waiting(position) };
        let (items, fault) = form.items(matches, self.table.decoder());
        Ok(Page { items, next: fault.map_or(next, State::At) })
    }

    /// Waits for a permit for a step on a blocking thread: the second step of a scan, or a later one.
    pub(super) async fn permit(&self, is_second: bool) -> Result<OwnedSemaphorePermit, StoreError> {
        permit(if is_second { &self.second_steps } else { &self.later_steps }).await
    }
}

/// Waits for a permit.
async fn permit(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, StoreError> {
    places.clone().acquire_owned().await.map_err(|_| StoreError::Closed)
}

/// Continues a panic in the caller; other errors mean that the runtime is shutting down.
pub(super) fn interrupted(error: JoinError) -> StoreError {
    match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => StoreError::Closed,
    }
}

/// Merges two inputs in key order; `states` override `found`.
fn merge(found: Vec<Match>, states: States) -> Vec<Match> {
    if states.is_empty() {
        return found;
    }
    let live = |(key, state): (Vec<u8>, Option<EncodedResource>)| {
        state.map(|resource| Match { key: key.into(), payload: Payload::Live(Box::new(resource)) })
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
            items.push(found);
        }
    }
    items.extend(states.filter_map(live));
    items
}
