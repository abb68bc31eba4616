//! Replays of the history from a position on, with the state before each event.
//!
//! The state of a resource before an event is in its preceding event. If that is older than the history, the state is
//! unknown; only a deletion carries it itself.
//!
//! # Why no event is missed
//! The history is trimmed only at its old end. A replay reads a page first, and then the start of the history: if the
//! page does not start before it, no event of the page was trimmed meanwhile.
//!
//! # Cost
//! Opening reads the history once, some microseconds for each event, and holds 32 bytes for each event of the type.
//! Pages are read on a blocking thread.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Weak},
    vec,
};

use mortise_resource::EncodedResource;
use prost_types::Timestamp;
use tokio::task::JoinHandle;

use crate::{
    ChangeEvent, Position, PriorState, StoreError,
    engine::{
        planted::{self, Fault},
        read::{
            changes::ChangeFilter,
            scan::{Scanner, interrupted},
        },
        tree::{
            keys,
            record::{Kind, Meta},
            table::{Payload, Table},
        },
    },
};

/// Events at which a page ends.
const PAGE_EVENTS: usize = 512;
/// Bytes of events at which a page ends.
const PAGE_BYTES: usize = 1 << 20;

/// A replay of the events between two positions.
pub(crate) struct Replay {
    /// Scanner of the store; weak, so as not to keep the database open.
    scanner: Weak<Scanner>,
    concern: ChangeFilter,
    earlier: Arc<PrecedingEvents>,
    /// The next sequence, and the last one.
    next: u64,
    until: u64,
    page: vec::IntoIter<ChangeEvent>,
    /// Running read of a page; kept here so that a cancelled call loses no page.
    reading: Option<JoinHandle<Result<Page, StoreError>>>,
}

/// Index of the events that hold the states before others.
struct PrecedingEvents {
    /// Sequence of the preceding event of the same resource, by sequence of an event.
    events: HashMap<u64, u64>,
    /// Whether the history is complete, so that a resource without an earlier event did not exist.
    is_complete: bool,
}

struct Page {
    changes: Vec<ChangeEvent>,
    next: u64,
}

impl Replay {
    /// Starts behind `from`; `None` when that is not in the history.
    pub(crate) async fn open(
        scanner: &Arc<Scanner>,
        concern: ChangeFilter,
        from: Position,
        until: Position,
    ) -> Result<Option<Self>, StoreError> {
        let earlier = match from == until {
            true => Some(PrecedingEvents { events: HashMap::new(), is_complete: false }),
            false => {
                let concern = concern.clone();
                scanner.clone().blocking(move |table| earlier(table, &concern, from, until.sequence)).await?
            }
        };
        Ok(earlier.map(|earlier| Self {
            scanner: Arc::downgrade(scanner),
            concern,
            earlier: Arc::new(earlier),
            next: from.sequence.saturating_add(u64::from(!planted::happens(Fault::DuplicateOnResume))),
            until: until.sequence,
            page: Vec::new().into_iter(),
            reading: None,
        }))
    }

    /// Returns the next change; `None` after the last. Safe to cancel.
    ///
    /// # Errors
    /// [`StoreError::HistoryTrimmed`]; faults of the store.
    pub(crate) async fn next(&mut self) -> Result<Option<ChangeEvent>, StoreError> {
        loop {
            if let Some(change) = self.page.next() {
                return Ok(Some(change));
            }
            if self.next > self.until {
                return Ok(None);
            }
            if self.reading.is_none() {
                let scanner = self.scanner.upgrade().ok_or(StoreError::Closed)?;
                let (concern, earlier, next, until) =
                    (self.concern.clone(), self.earlier.clone(), self.next, self.until);
                let read = scanner.blocking(move |table| page(table, &concern, &earlier, next, until));
                self.reading = Some(tokio::spawn(read));
            }
            let Some(reading) = &mut self.reading else { continue };
            let page = reading.await;
            self.reading = None;
            let page = page.map_err(interrupted)??;
            self.next = page.next;
            self.page = page.changes.into_iter();
        }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if let Some(reading) = &self.reading {
            reading.abort();
        }
    }
}

/// Finds the preceding events of those behind a position; `None` when the position is not in the history.
fn earlier(
    table: &Table,
    concern: &ChangeFilter,
    from: Position,
    until: u64,
) -> Result<Option<PrecedingEvents>, StoreError> {
    let first = first_event(table)?;
    let is_complete = first <= 1;
    let is_there = match from.sequence {
        0 => from == Position::default() && is_complete,
        sequence => event(table, sequence)?.is_some_and(|(_, carried)| Position::after(sequence, &carried) == from),
    };
    // A position ahead of the store belongs to another store.
    if !is_there || from.sequence > until {
        return Ok(None);
    }
    let hash = RandomState::new();
    let mut last: HashMap<u64, u64> = HashMap::new();
    let mut events = HashMap::new();
    for found in table.range(keys::event(first)..keys::event(until.saturating_add(1))) {
        let (key, value) = found?;
        let Some(sequence) = keys::event_seq(&key) else { continue };
        let payload = table.payload(&key, value)?;
        if let Payload::Torn = payload {
            // Trimmed meanwhile: the state before a later event is then unknown.
            continue;
        }
        let resource = table.decoder().parse(&key, payload)?;
        if concern.is_in_place(&resource) {
            let id = resource.id();
            let place = hash.hash_one((id.partition, id.namespace, id.name));
            if let Some(before) = last.insert(place, sequence).filter(|_| sequence > from.sequence) {
                events.insert(sequence, before);
            }
        }
    }
    // An event trimmed meanwhile may be one of those needed.
    Ok(Some(PrecedingEvents { events, is_complete: is_complete && first_event(table)? <= 1 }))
}

/// Reads a page of changes.
fn page(
    table: &Table,
    concern: &ChangeFilter,
    earlier: &PrecedingEvents,
    from: u64,
    until: u64,
) -> Result<Page, StoreError> {
    let mut changes = Vec::new();
    let (mut looked_at, mut bytes) = (0, 0);
    let mut next = until.saturating_add(1);
    for found in table.range(keys::event(from)..keys::event(next)) {
        let (key, value) = found?;
        let Some(sequence) = keys::event_seq(&key) else { continue };
        let kind = table.head(&key, &value)?.kind;
        let payload = table.payload(&key, value)?;
        if let Payload::Torn = payload {
            return Err(check_not_trimmed(table, from)
                .err()
                .unwrap_or_else(|| table.damaged(&key, "a chunk of it is missing")));
        }
        let resource = table.decoder().parse(&key, payload)?;
        bytes += resource.bytes().len();
        looked_at += 1;
        if concern.is_in_place(&resource) {
            let change = match kind {
                Kind::Delete => {
                    ChangeEvent { sequence, more: false, before: PriorState::Resource(resource), now: None }
                }
                Kind::Upsert | Kind::Resource => {
                    let before = before(table, earlier, sequence, &resource)?;
                    ChangeEvent { sequence, more: false, before, now: Some(resource) }
                }
            };
            changes.extend(Some(change).filter(|change| concern.has(change)));
        }
        if looked_at == PAGE_EVENTS || bytes >= PAGE_BYTES {
            next = sequence.saturating_add(1);
            break;
        }
    }
    check_not_trimmed(table, from)?;
    Ok(Page { changes, next })
}

/// Returns the state of a resource before an event, as far as the history has it.
fn before(
    table: &Table,
    earlier: &PrecedingEvents,
    sequence: u64,
    now: &EncodedResource,
) -> Result<PriorState, StoreError> {
    let Some(before) = earlier.events.get(&sequence) else {
        return Ok(if earlier.is_complete { PriorState::Absent } else { PriorState::Unknown });
    };
    Ok(match event(table, *before)? {
        Some((Kind::Delete, gone)) if is_at_same_place(&gone, now) => PriorState::Absent,
        Some((_, resource)) if is_at_same_place(&resource, now) => PriorState::Resource(resource),
        // Trimmed meanwhile, or another resource with the same hash.
        _ => PriorState::Unknown,
    })
}

fn is_at_same_place(left: &EncodedResource, other: &EncodedResource) -> bool {
    let (left, other) = (left.id(), other.id());
    (left.partition, left.namespace, left.name) == (other.partition, other.namespace, other.name)
}

/// Reads an event, if it exists.
fn event(table: &Table, sequence: u64) -> Result<Option<(Kind, EncodedResource)>, StoreError> {
    let key = keys::event(sequence);
    let Some(value) = table.get(&key)? else { return Ok(None) };
    let kind = table.head(&key, &value)?.kind;
    match table.payload(&key, value)? {
        Payload::Torn => Ok(None),
        payload => Ok(Some((kind, table.decoder().parse(&key, payload)?))),
    }
}

/// Returns the first sequence of the history.
fn first_event(table: &Table) -> Result<u64, StoreError> {
    let value = table.get(keys::META)?.ok_or_else(|| table.damaged(keys::META, "it is missing"))?;
    let meta = Meta::decode(&value).ok_or_else(|| table.damaged(keys::META, "the checksum does not match"))?;
    Ok(meta.first_event)
}

/// Fails when events from a sequence on may have been trimmed.
fn check_not_trimmed(table: &Table, from: u64) -> Result<(), StoreError> {
    if first_event(table)? > from { Err(StoreError::HistoryTrimmed) } else { Ok(()) }
}

/// Implements [`Backend::position_before`](crate::Backend::position_before). Deletions carry no time: those directly
/// before the first change of that time or later may have that time, too.
pub(crate) fn position_before(table: &Table, time: Timestamp) -> Result<Option<Position>, StoreError> {
    let first = first_event(table)?;
    let mut position = (first <= 1).then(Position::default);
    for found in table.range(keys::event(first)..keys::event(u64::MAX)) {
        let (key, value) = found?;
        let Some(sequence) = keys::event_seq(&key) else { continue };
        if table.head(&key, &value)?.kind == Kind::Delete {
            continue;
        }
        let payload = table.payload(&key, value)?;
        if let Payload::Torn = payload {
            continue;
        }
        let resource = table.decoder().parse(&key, payload)?;
        let meta = resource.decode_meta().map_err(|fault| table.damaged(&key, &fault.to_string()))?;
        let updated = meta.and_then(|meta| meta.update_time).map(|time| (time.seconds, time.nanos));
        if updated.is_some_and(|updated| updated >= (time.seconds, time.nanos)) {
            break;
        }
        position = Some(Position::after(sequence, &resource));
    }
    Ok(position)
}
