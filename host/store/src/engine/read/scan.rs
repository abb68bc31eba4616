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

use std::{
    sync::{Arc, Weak},
    thread,
};

use async_trait::async_trait;
use mortise_resource::{EncodedResource, pb};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{JoinError, JoinHandle},
};

use crate::{
    Cursor, Position, StoreError,
    engine::{
        read::{
            filter::Filter,
            publisher::{OverwriteWindow, Publisher, States, SubscribeRequest, Subscription},
            walk::{Match, StepLimit, Walk, YIELD_KEYS},
        },
        tree::{
            keys,
            table::{Decoder, Payload, Table},
        },
    },
};

/// Limit of a step on the caller's task: 64 keys take some 50 µs, about the cost of moving to another thread and back.
const FIRST_STEP_LIMIT: StepLimit = StepLimit { keys: 64, bytes: 256 << 10 };
/// Limit of a step on a blocking thread; after each the scan checks whether its caller still waits.
const LONG_STEP_LIMIT: StepLimit = StepLimit { keys: 1_024, bytes: 1 << 20 };
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
struct ScanPosition {
    walk: Walk,
    window: OverwriteWindow,
}

impl ScanPosition {
    /// Returns the next resources, in key order, and whether the end is reached.
    fn step(&mut self, table: &Table, limit: StepLimit) -> Result<(Vec<Match>, bool), StoreError> {
        let mut found = Vec::new();
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
    pub(crate) fn cursor(self: &Arc<Self>, filter: Filter) -> SledCursor {
        SledCursor { scanner: Arc::downgrade(self), state: State::First(Box::new(self.begin(filter))), steps: 0 }
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
    ) -> Result<(SledCursor, Subscription, Position), StoreError> {
        let walk = Walk::new(&filter);
        let (window, subscription, position) = self.publisher.subscribe(filter, wanted)?;
        let state = State::First(Box::new(ScanPosition { walk, window }));
        Ok((SledCursor { scanner: Arc::downgrade(self), state, steps: 0 }, subscription, position))
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

    fn page(&self, mut position: Box<ScanPosition>, limit: StepLimit) -> Result<Page, StoreError> {
        let (matches, ended) = position.step(&self.table, limit)?;
        position.walk.rest();
        let decoder = self.table.decoder();
        let (mut resources, mut next) = (Vec::with_capacity(matches.len()), State::Ended);
        if !ended {
            next = State::Waiting(position);
        }
        for (number, found) in matches.into_iter().enumerate() {
            if number > 0 && number % YIELD_KEYS == 0 {
                thread::yield_now();
            }
            let key = found.key.clone();
            match found.parse(decoder) {
                Ok(resource) => resources.push(resource),
                Err(source) => {
                    let Some(place) = keys::resource_list_key(&key) else { return Err(source) };
                    next = State::At(StoreError::Unreadable { place: Box::new(place), source: Box::new(source) });
                    break;
                }
            }
        }
        Ok(Page { resources, next })
    }
}

/// Waits for a permit.
async fn permit(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, StoreError> {
    places.clone().acquire_owned().await.map_err(|_| StoreError::Closed)
}

/// Result of a step of a cursor.
struct Page {
    resources: Vec<EncodedResource>,
    /// State of the cursor after the page.
    next: State,
}

/// A cursor over a [`SledBackend`](crate::SledBackend).
pub(crate) struct SledCursor {
    /// Scanner of the store; weak, so as not to keep the database open.
    scanner: Weak<Scanner>,
    state: State,
    /// Number of steps made.
    steps: usize,
}

enum State {
    /// Position before the first step, which runs on the caller's task.
    First(Box<ScanPosition>),
    Waiting(Box<ScanPosition>),
    /// Running step; kept here so that a cancelled call loses no page.
    Stepping(JoinHandle<Result<Page, StoreError>>),
    /// The next resource cannot be read.
    At(StoreError),
    Ended,
    Failed,
}

impl SledCursor {
    /// Takes the resources of a page, and the state after it.
    fn turn(&mut self, page: Result<Page, StoreError>) -> Result<Vec<EncodedResource>, StoreError> {
        self.state = State::Failed;
        let Page { resources, next } = page?;
        self.steps += 1;
        self.state = next;
        Ok(resources)
    }
}

#[async_trait]
impl Cursor for SledCursor {
    async fn next(&mut self) -> Result<Option<Vec<EncodedResource>>, StoreError> {
        loop {
            let resources = match std::mem::replace(&mut self.state, State::Failed) {
                State::First(position) => {
                    let page = self.scanner.upgrade().ok_or(StoreError::Closed)?.page(position, FIRST_STEP_LIMIT);
                    self.turn(page)?
                }
                State::Waiting(position) => {
                    // Put back, so that a call cancelled while it waits for a permit loses nothing.
                    self.state = State::Waiting(position);
                    let scanner = self.scanner.upgrade().ok_or(StoreError::Closed)?;
                    let places = if self.steps == 1 { &scanner.second_steps } else { &scanner.later_steps };
                    let permit = permit(places).await?;
                    if let State::Waiting(position) = std::mem::replace(&mut self.state, State::Failed) {
                        self.state = State::Stepping(tokio::task::spawn_blocking(move || {
                            let _permit = permit;
                            scanner.page(position, LONG_STEP_LIMIT)
                        }));
                    }
                    continue;
                }
                State::Stepping(step) => {
                    self.state = State::Stepping(step);
                    let State::Stepping(step) = &mut self.state else { return Err(StoreError::Closed) };
                    let page = step.await.unwrap_or_else(|error| Err(interrupted(error)));
                    self.turn(page)?
                }
                State::Ended => {
                    self.state = State::Ended;
                    return Ok(None);
                }
                State::At(fault) => return Err(fault),
                State::Failed => return Err(StoreError::Closed),
            };
            if !resources.is_empty() {
                return Ok(Some(resources));
            }
        }
    }

    fn is_at_end(&self) -> bool {
        matches!(self.state, State::Ended)
    }
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
            items.push(found);
        }
    }
    items.extend(states.filter_map(live));
    items
}

impl Match {
    /// Checks the checksum and returns the resource.
    fn parse(self, decoder: &Decoder) -> Result<EncodedResource, StoreError> {
        decoder.parse(&self.key, self.payload)
    }
}
