//! STATELESS: all matches, in no order, and then their changes; resumable.
//!
//! Each message after the snapshot is complete, and has a token, unless it is a part of a commit that fills several.
//! The messages of a snapshot, of a replay, and of one commit belong together: the last of them is complete. Now and
//! then a message has only a token, so that the history still has the changes after it even if few matches change.

use std::{time::SystemTime, vec};

use mortise_query::ResumeToken;
use mortise_resource::{
    EncodedResource, Error,
    data::{ResourceChange, WatchResourcesResponse, resource_change::*},
};
use mortise_store::{ChangeEvent, ChangeStep, ChangeWatch, Cursor, OpenedChanges, Position, PriorState, StoreError};
use prost::Message as _;
use prost_types::Timestamp;
use tokio::time::{Instant, sleep_until};

use super::session::{CHUNK_BYTES, Session, message};
use crate::{
    call::{Share, store_fault::ended},
    core::durations::BOOKMARK_INTERVAL,
    lists::{WatchTurn, YIELD_INTERVAL_CHANGES},
    query::compile::refused,
};

/// Changes of a message if the request has 0.
const DEFAULT_CHUNK_CHANGES: usize = 100;
/// Limit of the changes of a message.
const MAX_CHUNK_CHANGES: usize = 1_000;

/// A watch of all matches.
pub(super) struct Stateless {
    session: Session,
    chunk: usize,
    phase: Phase,
    /// Changes for the next message.
    pending: PendingChanges,
    /// Taken change of a commit of which a part is sent.
    rest: Option<ChangeEvent>,
    /// Position of the last examined change.
    position: Position,
    /// Position of the last sent token.
    sent: Position,
    /// Whether changes were sent after the last complete message.
    is_unfinished: bool,
    /// Whether the client has a snapshot or a token.
    is_in_sync: bool,
    /// Whether the reader was too slow for the changes since it was in step. A client's own replay has no pace, as a
    /// snapshot has none: the places for snapshots bound both.
    has_lagged: bool,
    bookmark: Instant,
}

/// Unsent changes.
#[derive(Default)]
struct PendingChanges {
    changes: Vec<ResourceChange>,
    bytes: usize,
}

/// The progress of the watch.
enum Phase {
    /// Starts with a snapshot.
    New,
    /// Starts after a position. Skips updates made before the time.
    Behind(Position, Option<Timestamp>),
    /// Starts with the changes made at this time.
    Since(Timestamp),
    Snapshot {
        content: Box<dyn Cursor>,
        /// Pages read so far.
        read: usize,
        page: vec::IntoIter<EncodedResource>,
        position: Position,
        changes: Box<dyn ChangeWatch>,
        _place: Share,
    },
    Replay(Box<dyn ChangeWatch>, Option<Timestamp>, Share),
    Live(Box<dyn ChangeWatch>),
    /// The watch is starting, or has failed.
    Ended,
}

impl Stateless {
    /// Makes a watch.
    ///
    /// # Errors
    /// `InvalidArgument`: an invalid token; a time that is invalid, in the future, or given with a token.
    pub(super) fn new(
        session: Session,
        chunk: usize,
        resume_token: &str,
        starting_time: Option<Timestamp>,
    ) -> Result<Self, Error> {
        let mut is_in_sync = false;
        let phase = match (resume_token, starting_time) {
            ("", None) => Phase::New,
            ("", Some(time)) => {
                let begin = SystemTime::try_from(time)
                    .map_err(|_| Error::invalid("starting_time: not a valid time; give one in the past"))?;
                if begin > SystemTime::now() {
                    return Err(Error::invalid("starting_time: in the future; give one in the past"));
                }
                Phase::Since(time)
            }
            (_, Some(_)) => {
                return Err(Error::invalid("starting_time is not for a watch with a resume_token; leave one out"));
            }
            (token, None) => {
                is_in_sync = true;
                let token = ResumeToken::decode(token, &session.binding()).map_err(refused)?;
                // The history does not have this position.
                let foreign = ResumeToken { sequence: u64::MAX, check: 0 };
                let ResumeToken { sequence, check } = token.unwrap_or(foreign);
                Phase::Behind(Position { sequence, check }, None)
            }
        };
        Ok(Self {
            session,
            chunk: if chunk == 0 { DEFAULT_CHUNK_CHANGES } else { chunk.min(MAX_CHUNK_CHANGES) },
            phase,
            pending: PendingChanges::default(),
            rest: None,
            position: Position::default(),
            sent: Position::default(),
            is_unfinished: false,
            is_in_sync,
            has_lagged: false,
            bookmark: Instant::now() + BOOKMARK_INTERVAL,
        })
    }

    /// Waits for the next message.
    pub(super) async fn next(&mut self) -> Result<WatchResourcesResponse, Error> {
        loop {
            if self.session.renew().await? {
                self.phase = Phase::New;
                self.pending = PendingChanges::default();
                self.rest = None;
                if self.is_in_sync || self.is_unfinished {
                    return Ok(self.reset());
                }
            }
            let message = match std::mem::replace(&mut self.phase, Phase::Ended) {
                Phase::New => self.begin().await?,
                Phase::Behind(position, since) => self.resume(position, since).await?,
                Phase::Since(time) => {
                    let backend = self.session.queries.core.backend.clone();
                    let found = self.session.until(backend.position_before(time)).await?.map_err(|e| ended(&e))?;
                    match found {
                        Some(position) => self.phase = Phase::Behind(position, Some(time)),
                        None => return Ok(self.start_over()),
                    }
                    None
                }
                Phase::Snapshot { content, read, page, position, changes, _place } => {
                    self.snapshot(content, read, page, position, changes, _place).await?
                }
                Phase::Replay(changes, since, place) => self.replay(changes, since, place).await?,
                Phase::Live(changes) => self.live(changes).await?,
                Phase::Ended => return Err(ended(&StoreError::Closed)),
            };
            if let Some(message) = message {
                self.is_unfinished = !message.is_current;
                return Ok(message);
            }
        }
    }

    /// Begins a snapshot.
    async fn begin(&mut self) -> Result<Option<WatchResourcesResponse>, Error> {
        let place = self.session.place().await?;
        let (query, part, terms) = self.session.part();
        let opened =
            self.session.queries.core.backend.open_changes(&query, &part, &terms).await.map_err(|e| ended(&e))?;
        let OpenedChanges { content, position, changes } = opened;
        let page = Vec::new().into_iter();
        self.phase = Phase::Snapshot { content, read: 0, page, position, changes, _place: place };
        Ok(None)
    }

    /// Goes on after a position.
    async fn resume(
        &mut self,
        position: Position,
        since: Option<Timestamp>,
    ) -> Result<Option<WatchResourcesResponse>, Error> {
        let place = self.session.place().await?;
        let (query, part, terms) = self.session.part();
        let backend = self.session.queries.core.backend.clone();
        let changes = self.session.until(backend.changes_after(&query, &part, &terms, position)).await?;
        let Some(changes) = changes.map_err(|e| ended(&e))? else { return Ok(Some(self.start_over())) };
        self.position = position;
        self.phase = Phase::Replay(changes, since, place);
        Ok(None)
    }

    async fn snapshot(
        &mut self,
        mut content: Box<dyn Cursor>,
        mut read: usize,
        mut page: vec::IntoIter<EncodedResource>,
        position: Position,
        changes: Box<dyn ChangeWatch>,
        place: Share,
    ) -> Result<Option<WatchResourcesResponse>, Error> {
        let mut hooks = self.session.hooks();
        for resource in page.by_ref() {
            let Some(visible) = self.session.visible(&mut hooks, &resource).await? else { continue };
            let current = current(&self.session, &visible.resource)?;
            // Checked before the change is added, so that the last message of a snapshot is the complete one.
            let full = self.pending.is_full(self.chunk).then(|| std::mem::take(&mut self.pending));
            self.pending.add(current);
            if let Some(full) = full {
                drop(hooks);
                self.phase = Phase::Snapshot { content, read, page, position, changes, _place: place };
                return Ok(Some(full.message()));
            }
        }
        drop(hooks);
        match self.session.page(&mut *content, read).await? {
            Some(next) => {
                read += 1;
                page = next.into_iter();
                self.phase = Phase::Snapshot { content, read, page, position, changes, _place: place };
                tokio::task::yield_now().await;
                Ok(None)
            }
            None => {
                self.position = position;
                self.phase = Phase::Live(changes);
                Ok(Some(self.complete()))
            }
        }
    }

    async fn replay(
        &mut self,
        mut changes: Box<dyn ChangeWatch>,
        since: Option<Timestamp>,
        place: Share,
    ) -> Result<Option<WatchResourcesResponse>, Error> {
        let mut turn: Option<WatchTurn> = None;
        loop {
            if self.has_lagged && turn.as_ref().is_none_or(WatchTurn::is_over) {
                drop(turn.take());
                turn = Some(self.session.turn().await?);
            }
            let step = match self.session.until(changes.next()).await? {
                Ok(step) => step,
                Err(error) => return self.recover(&error, since),
            };
            if self.session.renew().await? {
                return Ok(Some(self.start_over()));
            }
            match step {
                ChangeStep::Change(change) => {
                    let full = self.pending.is_full(self.chunk).then(|| std::mem::take(&mut self.pending));
                    let is_old = since.is_some_and(|since| is_before(&change, since));
                    let visible = if is_old { None } else { visible_change(&self.session, &change).await? };
                    visible.into_iter().for_each(|change| self.pending.add(change));
                    self.position = change.position();
                    if let Some(full) = full {
                        self.phase = Phase::Replay(changes, since, place);
                        return Ok(Some(full.message()));
                    }
                }
                ChangeStep::CaughtUp(position) => {
                    self.position = position;
                    self.has_lagged = false;
                    self.phase = Phase::Live(changes);
                    return Ok(Some(self.complete()));
                }
            }
        }
    }

    /// Waits for changes. Completes a message only behind a whole commit.
    async fn live(&mut self, mut changes: Box<dyn ChangeWatch>) -> Result<Option<WatchResourcesResponse>, Error> {
        let mut next = self.rest.take();
        if next.is_none() {
            let due = self.bookmark;
            let waited = self.session.until(async {
                tokio::select! {
                    step = changes.next() => Some(step),
                    () = sleep_until(due) => None,
                }
            });
            next = match waited.await? {
                Some(Ok(ChangeStep::Change(change))) => Some(change),
                Some(Ok(ChangeStep::CaughtUp(_))) => None,
                Some(Err(error)) => return self.recover(&error, None),
                None => {
                    self.bookmark = Instant::now() + BOOKMARK_INTERVAL;
                    let newest = changes.newest().filter(|newest| *newest != self.sent);
                    self.phase = Phase::Live(changes);
                    return Ok(newest.map(|newest| {
                        self.position = newest;
                        self.complete()
                    }));
                }
            };
        }
        let turn = self.session.turn().await?;
        // The type may have been registered again during the wait.
        if self.session.renew().await? {
            return Ok(Some(self.start_over()));
        }
        let mut looked_at = 0;
        while let Some(change) = next.take() {
            let visible = visible_change(&self.session, &change).await?;
            visible.into_iter().for_each(|change| self.pending.add(change));
            self.position = change.position();
            looked_at += 1;
            let is_full = self.pending.is_full(self.chunk);
            if change.more || (looked_at < YIELD_INTERVAL_CHANGES && !turn.is_over() && !is_full) {
                next = match changes.ready() {
                    Ok(next) => next,
                    Err(error) => {
                        let lost = self.recover(&error, None)?;
                        // Sends the examined changes first, unless the rest of their commit is missing.
                        return Ok(match lost {
                            None if !self.pending.changes.is_empty() && !change.more => Some(self.complete()),
                            lost => lost,
                        });
                    }
                };
            }
            if is_full && next.is_some() {
                self.rest = next;
                self.phase = Phase::Live(changes);
                return Ok(Some(std::mem::take(&mut self.pending).message()));
            }
        }
        self.phase = Phase::Live(changes);
        Ok((!self.pending.changes.is_empty() || self.is_unfinished).then(|| self.complete()))
    }

    /// Goes on from the history after an error of a slow reader.
    fn recover(
        &mut self,
        error: &StoreError,
        since: Option<Timestamp>,
    ) -> Result<Option<WatchResourcesResponse>, Error> {
        match error {
            StoreError::WatchLagged { .. } => {
                self.has_lagged = true;
                self.phase = Phase::Behind(self.position, since);
                Ok(None)
            }
            StoreError::HistoryTrimmed | StoreError::WatchClosed => Ok(Some(self.start_over())),
            other => Err(ended(other)),
        }
    }

    /// Completes the changes that belong together.
    fn complete(&mut self) -> WatchResourcesResponse {
        self.is_in_sync = true;
        self.sent = self.position;
        self.bookmark = Instant::now() + BOOKMARK_INTERVAL;
        let Position { sequence, check } = self.position;
        let resume_token = ResumeToken { sequence, check }.encode(&self.session.binding());
        WatchResourcesResponse { is_current: true, resume_token, ..std::mem::take(&mut self.pending).message() }
    }

    /// Starts with nothing: the history does not reach back, or stored data has another meaning now.
    fn start_over(&mut self) -> WatchResourcesResponse {
        self.has_lagged = false;
        self.phase = Phase::New;
        self.is_in_sync = true;
        self.reset()
    }

    /// Sends the client a reset: of everything, or of its unfinished first snapshot.
    fn reset(&mut self) -> WatchResourcesResponse {
        metrics::counter!("mortise_watches_resynced_total").increment(1);
        self.pending = PendingChanges::default();
        self.rest = None;
        self.is_unfinished = false;
        let is_hard_reset = std::mem::take(&mut self.is_in_sync);
        WatchResourcesResponse { is_hard_reset, is_soft_reset: !is_hard_reset, ..message() }
    }
}

impl PendingChanges {
    fn is_full(&self, chunk: usize) -> bool {
        self.changes.len() >= chunk || self.bytes >= CHUNK_BYTES
    }

    fn add(&mut self, change: ResourceChange) {
        self.bytes += change.encoded_len();
        self.changes.push(change);
    }

    fn message(self) -> WatchResourcesResponse {
        WatchResourcesResponse { changes: self.changes, ..message() }
    }
}

fn current(session: &Session, resource: &EncodedResource) -> Result<ResourceChange, Error> {
    let current = Current { resource: Some(session.shown(resource)?) };
    Ok(ResourceChange { change_type: Some(ChangeType::Current(current)) })
}

/// Returns the effect of a change on the watch.
async fn visible_change(session: &Session, change: &ChangeEvent) -> Result<Option<ResourceChange>, Error> {
    let mut hooks = session.hooks();
    let ChangeEvent { before, now, .. } = change;
    let visible = match now {
        Some(now) => session.visible(&mut hooks, now).await?,
        None => None,
    };
    if let Some(visible) = visible {
        if !session.search.mask.is_everything()
            && let PriorState::Resource(before) = before
            && let Some(before) = session.visible(&mut hooks, before).await?
            && session.shown(&before.resource)? == session.shown(&visible.resource)?
        {
            return Ok(None);
        }
        return current(session, &visible.resource).map(Some);
    }
    let left = match (before, now) {
        (PriorState::Resource(before), _) => session.visible(&mut hooks, before).await?.map(|before| before.resource),
        // It may have matched before.
        (PriorState::Unknown, Some(now)) if now.has_type(&session.search.kind.gvk) && hooks.may_read(now).await? => {
            Some(now.clone())
        }
        (PriorState::Absent | PriorState::Unknown, _) => None,
    };
    let Some(left) = left else { return Ok(None) };
    let removed = Removed { name: left.decode_id()?, view_index: 0 };
    Ok(Some(ResourceChange { change_type: Some(ChangeType::Removed(removed)) }))
}

/// Whether an update was made before a time, as far as its time is known.
fn is_before(change: &ChangeEvent, time: Timestamp) -> bool {
    let meta = change.now.as_ref().and_then(|now| now.decode_meta().ok().flatten());
    meta.and_then(|meta| meta.update_time)
        .is_some_and(|updated| (updated.seconds, updated.nanos) < (time.seconds, time.nanos))
}
