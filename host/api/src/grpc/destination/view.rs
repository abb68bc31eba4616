//! The addresses of one port of one service, and their recent changes.
//!
//! All streams with the same target share a view. A stream keeps its place (a [`Position`]: a version and the kind of
//! the last sent state), never a queue: its next message is the difference between its place and the present. So
//! changes that a slow stream has not received merge by themselves.
//!
//! # Differences
//! The view has a log: an entry for each change of an address, with its version and the previous state of the address.
//! So the state of an address at an older version is the previous state in its first entry after that version; without
//! such an entry it is the present state. The log holds twice as many entries as there are addresses, and
//! [`MIN_LOG_ENTRIES`] more; a stream that is further behind has lagged, and ends.
//!
//! # Messages
//! At most two: `add` with new or changed addresses, then `remove` with removed ones. A stream that has no addresses
//! yet, or whose service has new labels, gets all addresses. Bytes are made once for all streams at the same version,
//! and live as long as one of them still sends them.
//!
//! # Cost
//! An address takes its encoding and some 70 bytes. A change takes a walk over the endpoints of the parts that differ,
//! and one over the pointers to all addresses.

pub(super) mod summary;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Weak},
};

use hyper::body::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::Status;

use self::summary::{Form, Made};
use super::{
    authority::{Selection, ServiceName},
    encode::{self, Address, Dialect},
    memory::MemoryShare,
    state::Change as Update,
    translate::{addresses, set_labels},
};
use crate::{
    catalog::{ServicePort, ServiceRoutes},
    grpc::calls::{AnswerBytes, CountedBytes},
};

/// Entries of the log of a view without addresses.
const MIN_LOG_ENTRIES: usize = 1_024;

/// A view; see the module.
pub(super) struct View {
    selection: Selection,
    inner: Mutex<Inner>,
    /// The newest version, for waiting streams.
    version: watch::Sender<u64>,
    answers: AnswerBytes,
}

struct Inner {
    /// Number of the newest applied state of the service.
    seen: u64,
    /// Number of changes so far.
    version: u64,
    state: State,
    /// The service's ports and routes, of the newest state.
    ports: Vec<ServicePort>,
    routes: Option<Arc<ServiceRoutes>>,
    /// The addresses of each part of the service, sorted, each once.
    parts: BTreeMap<String, Vec<Arc<Address>>>,
    /// The addresses of all parts, sorted, each once: of two, that of the first part.
    addresses: Vec<Arc<Address>>,
    /// Size of the addresses, and of those that the log refers to, bytes.
    address_bytes: usize,
    log_bytes: usize,
    set_labels: Box<[u8]>,
    /// The version of the last change of labels.
    labelled: u64,
    log: VecDeque<Change>,
    /// The version after which the log has all changes.
    complete_since: u64,
    /// Bytes being sent, by the version that they start from; `None` for all addresses.
    encoded: HashMap<(Option<u64>, Dialect), Weak<CountedBytes>>,
    /// Profiles and policies being sent, of the present version.
    made: HashMap<Form, Made>,
    memory: MemoryShare,
}

/// The state of the service.
enum State {
    /// Unknown so far.
    Unknown,
    /// The service does not exist.
    Absent,
    Present,
    /// The service cannot be watched.
    Failed(Status),
}

struct Change {
    version: u64,
    addr: SocketAddr,
    before: Option<Arc<Address>>,
}

/// The place of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    version: u64,
    pub(super) sent: SentState,
}

/// The last state that a stream was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SentState {
    #[default]
    Nothing,
    NoEndpoints {
        exists: bool,
    },
    Endpoints,
}

/// The reason why a stream cannot continue.
#[derive(Debug)]
pub(super) enum StreamError {
    /// The stream is further behind than the log reaches.
    Lagged,
    Failed(Status),
}

impl View {
    /// Creates the view of a service in an unknown state.
    pub(super) fn new(selection: Selection, answers: AnswerBytes, memory: MemoryShare) -> Self {
        Self {
            selection,
            inner: Mutex::new(Inner {
                seen: 0,
                version: 0,
                state: State::Unknown,
                ports: Vec::new(),
                routes: None,
                parts: BTreeMap::new(),
                addresses: Vec::new(),
                address_bytes: 0,
                log_bytes: 0,
                set_labels: Box::default(),
                labelled: 0,
                log: VecDeque::new(),
                complete_since: 0,
                encoded: HashMap::new(),
                made: HashMap::new(),
                memory,
            }),
            version: watch::Sender::new(0),
            answers,
        }
    }

    /// A channel with the newest version.
    pub(super) fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Applies the change to state number `seen` of the service, unless the view has applied a newer one. Returns
    /// false, and applies nothing, if the change is not whole and the view has not applied the state before it.
    pub(super) fn apply(&self, seen: u64, service: &ServiceName, update: &Update) -> bool {
        let mut inner = self.inner.lock();
        if seen <= inner.seen {
            return true;
        }
        if !update.is_whole && inner.seen + 1 != seen {
            return false;
        }
        inner.seen = seen;
        let labels = update.facts.as_ref().map(|facts| set_labels(&facts.labels, service));
        let mut has_new_facts = false;
        if let (true, Some(facts)) = (update.is_whole, &update.facts) {
            has_new_facts = inner.ports != facts.ports || inner.routes != facts.routes;
            inner.ports.clone_from(&facts.ports);
            inner.routes.clone_from(&facts.routes);
        }
        let translate = |inner: &Inner, endpoints: &Vec<_>| addresses(&inner.ports, endpoints, &self.selection);
        let parts: BTreeMap<_, _> = update
            .parts
            .iter()
            .map(|(name, endpoints)| {
                (name.clone(), endpoints.as_ref().map_or_else(Vec::new, |endpoints| translate(&inner, endpoints)))
            })
            .collect();
        let state = if update.facts.is_some() { State::Present } else { State::Absent };
        if inner.apply(state, (update.is_whole, has_new_facts), parts, labels) {
            let (version, size) = (inner.version, inner.size());
            inner.memory.set(size);
            drop(inner);
            self.version.send_replace(version);
        }
        true
    }

    /// Ends all streams with a status.
    pub(super) fn fail(&self, status: Status) {
        let mut inner = self.inner.lock();
        inner.state = State::Failed(status);
        inner.version += 1;
        let version = inner.version;
        drop(inner);
        self.version.send_replace(version);
    }

    /// The next message for a stream, if there is one; advances the position to the present.
    ///
    /// # Errors
    /// The stream cannot continue.
    pub(super) fn next(&self, position: &mut Position, dialect: Dialect) -> Result<Option<Bytes>, StreamError> {
        let mut inner = self.inner.lock();
        let none = |exists| match position.sent == (SentState::NoEndpoints { exists }) {
            true => (position.sent, None),
            false => (SentState::NoEndpoints { exists }, Some(encode::no_endpoints(exists))),
        };
        let (sent, bytes) = match &inner.state {
            State::Unknown => return Ok(None),
            State::Failed(status) => return Err(StreamError::Failed(status.clone())),
            State::Absent => none(false),
            State::Present if inner.addresses.is_empty() => none(true),
            State::Present => {
                let from = (position.sent == SentState::Endpoints).then_some(position.version);
                (SentState::Endpoints, inner.encoded(from, dialect, &self.answers)?)
            }
        };
        *position = Position { version: inner.version, sent };
        Ok(bytes)
    }
}

impl Inner {
    /// Applies a state; returns whether anything changed. The parts are all that there are, or those that changed.
    fn apply(
        &mut self,
        state: State,
        (is_whole, has_new_facts): (bool, bool),
        parts: BTreeMap<String, Vec<Arc<Address>>>,
        set_labels: Option<Box<[u8]>>,
    ) -> bool {
        let version = self.version + 1;
        let mut touched = BTreeSet::new();
        let gone = self.parts.iter().filter(|(name, _)| is_whole && !parts.contains_key(*name));
        touched.extend(gone.flat_map(|(_, part)| part.iter().map(|address| address.addr)));
        for (name, part) in &parts {
            let before = self.parts.get(name).map(Vec::as_slice).unwrap_or_default();
            differing(before, part, |addr| _ = touched.insert(addr));
        }
        if is_whole {
            self.parts = parts;
        } else {
            self.parts.extend(parts);
        }
        self.parts.retain(|_, part| !part.is_empty());
        let changes = self.merge(version, &touched);
        let set_labels = set_labels.filter(|labels| *labels != self.set_labels);
        let same_state =
            matches!((&self.state, &state), (State::Absent, State::Absent) | (State::Present, State::Present));
        if same_state && set_labels.is_none() && changes.is_empty() && !has_new_facts {
            return false;
        }
        let most = 2 * self.addresses.len().max(changes.len()) + MIN_LOG_ENTRIES;
        self.log_bytes += changes.iter().map(Change::size).sum::<usize>();
        self.log.extend(changes);
        while self.log.len() > most {
            let Some(oldest) = self.log.pop_front() else { break };
            self.log_bytes -= oldest.size();
            self.complete_since = self.complete_since.max(oldest.version);
        }
        if let Some(set_labels) = set_labels {
            self.set_labels = set_labels;
            self.labelled = version;
        }
        self.state = state;
        self.version = version;
        self.encoded.clear();
        true
    }

    /// Takes the addresses in `touched` over from the parts; returns the changes.
    fn merge(&mut self, version: u64, touched: &BTreeSet<SocketAddr>) -> Vec<Change> {
        let (mut changes, mut merged) = (Vec::new(), Vec::with_capacity(self.addresses.len() + touched.len()));
        let mut before = std::mem::take(&mut self.addresses).into_iter().peekable();
        for addr in touched {
            while let Some(untouched) = before.next_if(|address| address.addr < *addr) {
                merged.push(untouched);
            }
            let old = before.next_if(|address| address.addr == *addr);
            let now = self.parts.values().find_map(|part| find(part, *addr)).cloned();
            if old != now {
                self.address_bytes += now.as_ref().map_or(0, |address| address.size());
                self.address_bytes -= old.as_ref().map_or(0, |address| address.size());
                changes.push(Change { version, addr: *addr, before: old });
            }
            merged.extend(now);
        }
        merged.extend(before);
        self.addresses = merged;
        changes
    }

    /// The encoded difference from version `from` to the newest one; `None` if nothing differs. Without `from`, all
    /// addresses.
    fn encoded(
        &mut self,
        from: Option<u64>,
        dialect: Dialect,
        answers: &AnswerBytes,
    ) -> Result<Option<Bytes>, StreamError> {
        if from == Some(self.version) {
            return Ok(None);
        }
        if from.is_some_and(|from| from < self.complete_since) {
            return Err(StreamError::Lagged);
        }
        if let Some(bytes) = self.encoded.get(&(from, dialect)).and_then(Weak::upgrade) {
            return Ok(Some(CountedBytes::share(bytes)));
        }
        let mut out = Vec::new();
        match from {
            None => self.add_all(&mut out, dialect),
            Some(from) => self.difference(from, &mut out, dialect),
        }
        if out.is_empty() {
            return Ok(None);
        }
        let bytes = Arc::new(answers.count(out));
        // Bytes that no stream sends any more are removed.
        self.encoded.retain(|_, bytes| bytes.strong_count() > 0);
        self.encoded.insert((from, dialect), Arc::downgrade(&bytes));
        Ok(Some(CountedBytes::share(bytes)))
    }

    fn add_all(&self, out: &mut Vec<u8>, dialect: Dialect) {
        encode::add(out, dialect, self.addresses.iter().map(|address| &**address), &self.set_labels);
    }

    fn difference(&self, from: u64, out: &mut Vec<u8>, dialect: Dialect) {
        let mut before = BTreeMap::new();
        let start = self.log.partition_point(|change| change.version <= from);
        for change in self.log.range(start..) {
            before.entry(change.addr).or_insert(change.before.as_deref());
        }
        let (mut added, mut gone) = (Vec::new(), Vec::new());
        for (addr, before) in before {
            match (before, self.find(addr)) {
                (Some(before), Some(now)) if before.encoded(dialect) == now.encoded(dialect) => {}
                (_, Some(now)) => added.push(now),
                (Some(_), None) => gone.push(addr),
                (None, None) => {}
            }
        }
        if self.labelled > from {
            self.add_all(out, dialect);
        } else if !added.is_empty() {
            encode::add(out, dialect, added.into_iter(), &self.set_labels);
        }
        if !gone.is_empty() {
            encode::remove(out, gone.into_iter());
        }
    }

    fn find(&self, addr: SocketAddr) -> Option<&Address> {
        find(&self.addresses, addr).map(|address| &**address)
    }

    /// Size in memory, bytes.
    fn size(&self) -> usize {
        let pointers = 2 * self.addresses.len() * size_of::<Arc<Address>>();
        size_of::<Self>() + self.address_bytes + pointers + self.log_bytes
    }
}

impl Change {
    /// Size in memory, bytes, with the replaced address.
    fn size(&self) -> usize {
        size_of::<Self>() + self.before.as_ref().map_or(0, |address| address.size())
    }
}

/// An address in a sorted list.
fn find(addresses: &[Arc<Address>], addr: SocketAddr) -> Option<&Arc<Address>> {
    let index = addresses.binary_search_by_key(&addr, |address| address.addr).ok()?;
    addresses.get(index)
}

/// Calls `each` for the addresses in which two sorted lists differ.
fn differing(before: &[Arc<Address>], now: &[Arc<Address>], mut each: impl FnMut(SocketAddr)) {
    let (mut before, mut now) = (before.iter().peekable(), now.iter().peekable());
    loop {
        let order = match (before.peek(), now.peek()) {
            (None, None) => return,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(before), Some(now)) => before.addr.cmp(&now.addr),
        };
        let old = if order.is_le() { before.next() } else { None };
        let new = if order.is_ge() { now.next() } else { None };
        if old != new
            && let Some(address) = old.or(new)
        {
            each(address.addr);
        }
    }
}
