//! Watches of changes, with the state before each, from the present content or from a position on.
//!
//! A watch subscribes first. It reads the changes between its position and the subscription from the history
//! ([`replay`](crate::engine::read::replay)), and later ones from the type's hub: no gap, nothing twice. If the replay
//! takes so long that the hub overflows, the watch has lagged, and its reader opens another one at its position.

use std::sync::Arc;

use async_trait::async_trait;
use mortise_resource::EncodedResource;

use crate::{
    ChangeEvent, ChangeStep, ChangeWatch, OpenedChanges, Position, PriorState, Query, ScanPart, StoreError, Term,
    WatchEvent,
    engine::read::{
        filter::{Filter, with_place},
        hub::HubEvent,
        publisher::{SubscribeRequest, Subscription},
        replay::Replay,
        scan::Scanner,
    },
};

/// Changes of a watch: those of resources that match before or after the change.
#[derive(Clone)]
pub(crate) struct ChangeFilter {
    /// Filter by place, which a change cannot alter.
    place: Filter,
    whole: Filter,
}

impl ChangeFilter {
    fn new(query: &Query, part: &ScanPart) -> Self {
        let place = ScanPart { label: None, ..part.clone() };
        Self { place: Filter::Part(query.clone(), place), whole: Filter::Part(query.clone(), part.clone()) }
    }

    /// Whether a resource is in the place, with the label or without.
    pub(crate) fn is_in_place(&self, resource: &EncodedResource) -> bool {
        self.place.matches(resource)
    }

    /// Whether a change belongs to the watch. True for a resource that may have matched before.
    pub(crate) fn has(&self, change: &ChangeEvent) -> bool {
        let matches = |resource: &EncodedResource| self.whole.matches(resource);
        change.now.as_ref().is_some_and(matches)
            || match &change.before {
                PriorState::Absent => false,
                PriorState::Resource(before) => matches(before),
                PriorState::Unknown => change.now.as_ref().is_none_or(|now| self.is_in_place(now)),
            }
    }
}

/// Opens a watch, and a scan of the present matches.
pub(crate) fn open(
    scanner: &Arc<Scanner>,
    query: &Query,
    part: &ScanPart,
    terms: &[Term],
) -> Result<OpenedChanges, StoreError> {
    let terms = with_place(terms, query);
    let wanted = SubscribeRequest { type_key: &query.type_key, terms: &terms, compares: true };
    let (content, events, position) = scanner.watch(Filter::Part(query.clone(), part.clone()), &wanted)?;
    let changes = SledChanges { concern: ChangeFilter::new(query, part), replay: None, caught_up: None, events };
    Ok(OpenedChanges { content: Box::new(content), position, changes: Box::new(changes) })
}

/// Opens a watch behind a position; `None` if the history does not reach back to it.
pub(crate) async fn after(
    scanner: &Arc<Scanner>,
    query: &Query,
    part: &ScanPart,
    terms: &[Term],
    position: Position,
) -> Result<Option<Box<dyn ChangeWatch>>, StoreError> {
    let terms = with_place(terms, query);
    let wanted = SubscribeRequest { type_key: &query.type_key, terms: &terms, compares: true };
    let (events, newest) = scanner.follow(&wanted)?;
    let concern = ChangeFilter::new(query, part);
    let Some(replay) = Replay::open(scanner, concern.clone(), position, newest).await? else { return Ok(None) };
    Ok(Some(Box::new(SledChanges { concern, replay: Some(replay), caught_up: Some(newest), events })))
}

/// A watch of changes on the engine.
struct SledChanges {
    concern: ChangeFilter,
    /// Changes from the history; `None` once they are read.
    replay: Option<Replay>,
    /// Position to report at the end of the replay; `None` once it is reported.
    caught_up: Option<Position>,
    events: Subscription,
}

impl SledChanges {
    fn wanted(&self, event: HubEvent) -> Option<ChangeEvent> {
        let HubEvent { event, sequence, more, before, .. } = event;
        let (now, before) = match event {
            WatchEvent::Upsert(now) => (Some(now), before.map_or(PriorState::Absent, PriorState::Resource)),
            WatchEvent::Delete(before) => (None, PriorState::Resource(before)),
            WatchEvent::EndOfSnapshot => return None,
        };
        Some(ChangeEvent { sequence, more, before, now }).filter(|change| self.concern.has(change))
    }
}

#[async_trait]
impl ChangeWatch for SledChanges {
    async fn next(&mut self) -> Result<ChangeStep, StoreError> {
        if let Some(replay) = &mut self.replay {
            if let Some(change) = replay.next().await? {
                return Ok(ChangeStep::Change(change));
            }
            self.replay = None;
        }
        if let Some(position) = self.caught_up.take() {
            return Ok(ChangeStep::CaughtUp(position));
        }
        loop {
            let event = self.events.next().await?;
            if let Some(change) = self.wanted(event) {
                return Ok(ChangeStep::Change(change));
            }
        }
    }

    fn ready(&mut self) -> Result<Option<ChangeEvent>, StoreError> {
        if self.replay.is_some() || self.caught_up.is_some() {
            return Ok(None);
        }
        while let Some(event) = self.events.ready()? {
            if let Some(change) = self.wanted(event) {
                return Ok(Some(change));
            }
        }
        Ok(None)
    }

    fn newest(&self) -> Option<Position> {
        if self.replay.is_some() || self.caught_up.is_some() { None } else { self.events.newest() }
    }
}
