//! Writes and deletions, from the history that the server keeps for watches.
//!
//! A watch from a time on sends every kept change behind it. The history is the same for all types. If it does not
//! reach back to the wanted time, its beginning is found by watches from other times.

use std::{collections::HashMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use mortise_resource::{
    data::{
        WatchResourcesRequest, WatchResourcesResponse,
        resource_change::{ChangeType, Current, Removed},
    },
    goten::{View, WatchType},
    pb,
    types::gvk,
};
use tonic::Streaming;

use super::{
    compare::{self, written_at},
    event::{Event, EventKind, Moment, Wanted, to_message},
};
use crate::{
    CliError, Session,
    resources::catalog::Catalog,
    resources::ids::{Key, id_of},
};

/// Pause before an ended watch is opened again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// First guess at the length of a history.
const FIRST_GUESS: SignedDuration = SignedDuration::from_mins(10);

/// Steps of the search for the beginning of a history: away from the first guess, then between two times.
const GROWING_STEPS: usize = 8;
const HALVING_STEPS: usize = 6;

/// The reach of the history.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reach {
    /// Time from which the events are read.
    pub(super) from: Option<Timestamp>,
    /// True if the history begins before everything that is asked for.
    pub(super) is_whole: bool,
}

/// A watch, and the states that it has shown.
pub(super) struct Follower {
    wanted: Wanted,
    stream: Option<Streaming<WatchResourcesResponse>>,
    /// Messages that were read at the opening.
    read: Vec<WatchResourcesResponse>,
    resume: String,
    /// Last shown states.
    known: HashMap<Key, pb::Resource>,
    /// Time of the last shown write.
    last: Option<Timestamp>,
    /// True while messages are a snapshot after a reset, and no events.
    is_snapshot: bool,
    /// True once events come as they happen.
    is_live: bool,
}

fn request(wanted: &Wanted, from: Option<Timestamp>, resume: &str) -> WatchResourcesRequest {
    WatchResourcesRequest {
        parent: wanted.name.clone().unwrap_or_default(),
        // The times of writes are among the server's own data.
        view: View::Full.into(),
        r#type: WatchType::Stateless.into(),
        resume_token: resume.to_owned(),
        starting_time: from.map(to_message),
        resource_type: Some(wanted.ty.clone()),
        tenancy: Some(wanted.units.clone()),
        ..WatchResourcesRequest::default()
    }
}

/// Opens a watch from a time on; `None` if the history does not reach back so far.
async fn open_at(session: &Session, wanted: &Wanted, from: Timestamp) -> Result<Option<Follower>, CliError> {
    let request = request(wanted, Some(from), "");
    let mut stream = session.call(gvk(&wanted.ty), async { session.watches().watch_resources(request).await }).await?;
    let first = session.next(gvk(&wanted.ty), &mut stream).await?;
    if first.as_ref().is_some_and(|first| first.is_hard_reset || first.is_soft_reset) {
        return Ok(None);
    }
    Ok(Some(Follower {
        wanted: wanted.clone(),
        stream: Some(stream),
        read: first.into_iter().collect(),
        resume: String::new(),
        known: HashMap::new(),
        last: None,
        is_snapshot: false,
        is_live: false,
    }))
}

/// Opens the history of a type: from the wanted time, or from its beginning. `known` is the reach that another type
/// has shown.
pub(super) async fn open(
    session: &Session,
    wanted: &Wanted,
    since: Option<Timestamp>,
    known: Option<Reach>,
) -> Result<(Follower, Reach), CliError> {
    let first = known.and_then(|reach| reach.from).or(since).unwrap_or(Timestamp::UNIX_EPOCH);
    if let Some(follower) = open_at(session, wanted, first).await? {
        let is_whole = known.is_none_or(|reach| reach.is_whole);
        return Ok((follower, Reach { from: Some(first), is_whole }));
    }
    // The history is shorter: a time is wanted from which there is all of it.
    let now = Timestamp::now();
    let (mut early, mut late) = (first, None::<(Timestamp, Follower)>);
    let mut span = FIRST_GUESS;
    for _ in 0..GROWING_STEPS {
        let at = now.checked_sub(span).unwrap_or(first).max(first);
        match open_at(session, wanted, at).await? {
            Some(follower) => {
                late = Some((at, follower));
                span = span.saturating_mul(4);
                if at <= early {
                    break;
                }
            }
            None => {
                early = early.max(at);
                if late.is_some() {
                    break;
                }
                span = SignedDuration::from_millis(span.as_millis().try_into().unwrap_or(i64::MAX) / 8);
            }
        }
    }
    let Some((mut from, mut follower)) = late else {
        return Ok((live(session, wanted).await?, Reach { from: None, is_whole: false }));
    };
    for _ in 0..HALVING_STEPS {
        let half = from.duration_since(early) / 2;
        let Ok(at) = from.checked_sub(half) else { break };
        match open_at(session, wanted, at).await? {
            Some(longer) => (from, follower) = (at, longer),
            None => early = at,
        }
    }
    Ok((follower, Reach { from: Some(from), is_whole: false }))
}

/// Opens a watch of further changes, behind a snapshot that is not shown.
async fn live(session: &Session, wanted: &Wanted) -> Result<Follower, CliError> {
    let request = request(wanted, None, "");
    let stream = session.call(gvk(&wanted.ty), async { session.watches().watch_resources(request).await }).await?;
    Ok(Follower {
        wanted: wanted.clone(),
        stream: Some(stream),
        read: Vec::new(),
        resume: String::new(),
        known: HashMap::new(),
        last: None,
        is_snapshot: true,
        is_live: false,
    })
}

impl Follower {
    /// Returns the kept events, in the order of their commits.
    pub(super) async fn replay(&mut self, session: &Session, catalog: &Catalog) -> Result<Vec<Event>, CliError> {
        let mut events = Vec::new();
        loop {
            let message = match self.read.pop() {
                Some(message) => Some(message),
                None => match &mut self.stream {
                    Some(stream) => session.next(gvk(&self.wanted.ty), stream).await?,
                    None => None,
                },
            };
            let Some(message) = message else {
                return Err(CliError::failed("the server ended the watch").remedy("run the command again"));
            };
            let is_current = message.is_current;
            events.extend(self.take(message, catalog)?);
            if is_current {
                self.is_live = true;
                return Ok(events);
            }
        }
    }

    /// Waits for further events. A watch that the server ended goes on from its last token.
    pub(super) async fn next(&mut self, session: &Session, catalog: &Catalog) -> Result<Vec<Event>, CliError> {
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => {
                    let request = request(&self.wanted, None, &self.resume);
                    let call = async { session.watches().watch_resources(request).await };
                    self.stream.insert(session.call(gvk(&self.wanted.ty), call).await?)
                }
            };
            match stream.message().await {
                Ok(Some(message)) => {
                    let events = self.take(message, catalog)?;
                    if !events.is_empty() {
                        return Ok(events);
                    }
                }
                Err(status) if status.code() != tonic::Code::Aborted => {
                    return Err(CliError::rpc(gvk(&self.wanted.ty), &status));
                }
                // The end, or a change of the caller's rights.
                Ok(None) | Err(_) => {
                    self.stream = None;
                    tokio::time::sleep(REOPEN_PAUSE).await;
                }
            }
        }
    }

    /// Returns the events of a message.
    fn take(&mut self, message: WatchResourcesResponse, catalog: &Catalog) -> Result<Vec<Event>, CliError> {
        if message.is_hard_reset || message.is_soft_reset {
            self.is_snapshot = true;
            self.resume.clear();
        }
        let mut events = Vec::new();
        for change in message.changes {
            match change.change_type {
                Some(ChangeType::Current(Current { resource: Some(resource) })) => {
                    events.extend(self.written(resource, catalog)?);
                }
                Some(ChangeType::Removed(Removed { name: Some(id), .. })) => events.extend(self.removed(id)),
                _ => {}
            }
        }
        if message.is_current {
            self.is_snapshot = false;
            if !message.resume_token.is_empty() {
                self.resume = message.resume_token;
            }
        }
        Ok(events)
    }

    fn written(&mut self, resource: pb::Resource, catalog: &Catalog) -> Result<Vec<Event>, CliError> {
        let id = id_of(&resource);
        if !self.wanted.has(&id) {
            return Ok(Vec::new());
        }
        let key = Key::of(&id);
        let events = match self.is_snapshot {
            true => Vec::new(),
            false => compare::events(self.known.get(&key), &resource, catalog)?,
        };
        self.last = written_at(&resource).or(self.last);
        self.known.insert(key, resource);
        Ok(events)
    }

    /// The end of a resource. Only an end that is seen has a time.
    fn removed(&mut self, id: pb::Id) -> Option<Event> {
        if !self.wanted.has(&id) || self.is_snapshot {
            return None;
        }
        let was = self.known.remove(&Key::of(&id));
        let moment = match (self.is_live, self.last) {
            (true, _) => Moment::At(Timestamp::now()),
            (false, Some(last)) => Moment::After(last),
            (false, None) => Moment::Unknown,
        };
        let text = match was {
            Some(was) => format!("its last version was {}", was.version),
            None => "its earlier states are not kept".to_owned(),
        };
        Some(Event { moment, kind: EventKind::Deleted, id, text })
    }
}
