//! The state that all tasks of a history share: the clock, the record, the servers, and what the clients have seen.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use mortise_proof::record::{DRAFT, Entry, Key, NAMESPACE, NODE, State};
use mortise_test_process::channel;
use tokio::sync::watch;
use tonic::{Code, Status, transport::Channel};

use super::convert::{ALBUM, ARTIST};

/// Pause between two attempts to connect.
const CONNECT_PAUSE: Duration = Duration::from_millis(20);
/// Time limit of a call.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(20);
/// Time limit for deferred deletions, and for the last message of a watch, at the end of a history.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Addresses of the servers in one of their lives; none while they are down.
#[derive(Debug, Clone, Default)]
pub(crate) struct Life {
    pub(crate) number: u64,
    pub(crate) addrs: Vec<SocketAddr>,
    /// Known addresses of HTTP.
    pub(crate) http: Vec<SocketAddr>,
}

/// Shared state of a history.
pub(crate) struct World {
    begun: Instant,
    /// Beginning of all names of the history.
    pub(crate) prefix: String,
    /// Namespaces of the history, `default` first, and that of another partition last.
    pub(crate) namespaces: Vec<String>,
    /// Names of each kind in each namespace.
    pub(crate) names: usize,
    /// Time limit of each wait at the end.
    pub(crate) patience: Duration,
    /// Whether the servers serve the types with references.
    pub(crate) has_nodes: AtomicBool,
    life: watch::Receiver<Life>,
    known: Mutex<HashMap<Key, State>>,
    record: Mutex<Vec<Entry>>,
    texts: AtomicU64,
    left: AtomicUsize,
    /// Whether the watches should end once they have seen the mark.
    pub(crate) finish: watch::Sender<bool>,
    /// Refusals by code.
    pub(crate) refusals: Mutex<HashMap<String, u64>>,
}

/// A connection in one life of the servers.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) channel: Channel,
    /// Address of HTTP.
    pub(crate) http: Option<SocketAddr>,
    pub(crate) life: u64,
}

impl World {
    pub(crate) fn new(prefix: String, operations: usize, names: usize, life: watch::Receiver<Life>) -> Self {
        let namespaces =
            vec!["default".to_owned(), format!("{prefix}a"), format!("{prefix}b"), format!("{prefix}p/default")];
        Self {
            begun: Instant::now(),
            prefix,
            namespaces,
            names,
            patience: PATIENCE,
            has_nodes: AtomicBool::new(false),
            life,
            known: Mutex::default(),
            record: Mutex::default(),
            texts: AtomicU64::new(0),
            left: AtomicUsize::new(operations),
            finish: watch::Sender::new(false),
            refusals: Mutex::default(),
        }
    }

    /// Returns the kinds of all resources of the history, but for partitions, in the order of lists.
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        match self.has_nodes.load(Ordering::Relaxed) {
            true => vec![ALBUM, ARTIST, DRAFT, NAMESPACE, NODE],
            false => vec![ALBUM, ARTIST, NAMESPACE],
        }
    }

    /// Microseconds since the beginning.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX - 1)
    }

    /// Returns a text that no other write of the history has.
    pub(crate) fn text(&self) -> String {
        format!("{}-{}", self.prefix, self.texts.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes one of the operations that are left.
    pub(crate) fn take(&self) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Ends the operations.
    pub(crate) fn end_calls(&self) {
        self.left.store(0, Ordering::Relaxed);
    }

    /// Number of operations that are left.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, entry: Entry) {
        lock(&self.record).push(entry);
    }

    pub(crate) fn take_record(&self) -> Vec<Entry> {
        std::mem::take(&mut *lock(&self.record))
    }

    /// Notes the newest state that a client has seen.
    pub(crate) fn saw(&self, state: &State) {
        let mut known = lock(&self.known);
        match known.get(&state.key) {
            Some(newer) if newer.version >= state.version => {}
            _ => drop(known.insert(state.key.clone(), state.clone())),
        }
    }

    pub(crate) fn missed(&self, key: &Key) {
        lock(&self.known).remove(key);
    }

    pub(crate) fn known(&self, key: &Key) -> Option<State> {
        lock(&self.known).get(key).cloned()
    }

    pub(crate) fn refused(&self, code: Code) {
        *lock(&self.refusals).entry(format!("{code:?}")).or_default() += 1;
    }

    /// Connects to the server of a client, and waits for its next life if it is down.
    pub(crate) async fn connect(&self, client: usize) -> Connection {
        let mut life = self.life.clone();
        let mut turn = client;
        loop {
            let Life { number, addrs, http } = life.borrow_and_update().clone();
            let count = addrs.len().max(1);
            if let Some(addr) = addrs.get(turn % count)
                && let Ok(channel) = channel(*addr).await
            {
                let http = http.get(turn % http.len().max(1)).copied();
                return Connection { channel, http, life: number };
            }
            tokio::select! {
                changed = life.changed() => if changed.is_err() { tokio::time::sleep(CONNECT_PAUSE).await },
                () = tokio::time::sleep(CONNECT_PAUSE) => {}
            }
            // Another server may answer.
            turn = turn.wrapping_add(1);
        }
    }

    /// An address of HTTP, if one is known and up.
    pub(crate) fn http(&self) -> Option<SocketAddr> {
        self.life.borrow().http.first().copied()
    }

    /// Whether the servers have not been restarted since.
    pub(crate) fn lives(&self, connection: &Connection) -> bool {
        let life = self.life.borrow();
        life.number == connection.life && !life.addrs.is_empty()
    }
}

/// Locks, also after a panic of another task: each change of the data is one statement.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an error leaves open if the call was done.
pub(crate) fn is_open(status: &Status) -> bool {
    !matches!(
        status.code(),
        Code::NotFound
            | Code::Aborted
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::InvalidArgument
            | Code::PermissionDenied
            | Code::ResourceExhausted
    )
}
