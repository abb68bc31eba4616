//! The state of lists and watches: shared places, shared bytes, and threads of low priority.

use std::sync::Arc;

use mortise_plugin_host::LowPriorityThreads;
use mortise_resource::{Code, Error, types::Gvk};
use tokio::time::Instant;

use super::{
    recent_decisions::RecentDecisions,
    watch_pace::{WatchPace, WatchPaces},
    watch_places::{WatchPlace, WatchPlaces},
    watched_types::{WatchedType, WatchedTypes},
};
use crate::{
    call::{Caller, FairPool, NoShare, Share},
    core::Core,
};

/// Pages of a list, a snapshot or a search that are read on the threads that serve requests; further ones are read on
/// threads of low priority.
pub(crate) const FOREGROUND_PAGES: usize = 2;
/// Resources of these pages.
pub(super) const FOREGROUND_RESOURCES: usize = 64 + 1_024;
/// Changes that a watch examines without a pause, so that a watch with few matches lets other tasks run.
pub(crate) const YIELD_INTERVAL_CHANGES: usize = 256;

/// State of clients' lists and watches. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Lists {
    pub(crate) core: Core,
    watches: WatchPlaces,
    watched: WatchedTypes,
    paces: WatchPaces,
    /// Decisions about recent events.
    pub(crate) recent: Arc<RecentDecisions>,
    /// Places for watches during their snapshot.
    pub(crate) snapshots: FairPool,
    /// Bytes of lists in memory, read or waiting to be sent.
    pub(crate) bytes: FairPool,
    /// Threads for long reads: the later pages of lists and snapshots.
    pub(crate) low_priority: Arc<LowPriorityThreads>,
}

impl Lists {
    pub(crate) fn new(core: Core) -> Self {
        let options = &core.options;
        Self {
            watches: WatchPlaces::new(options.max_watches, options.caller_watches),
            watched: WatchedTypes::default(),
            paces: WatchPaces::default(),
            recent: Arc::default(),
            snapshots: FairPool::new(options.max_snapshots, options.max_waiting),
            bytes: FairPool::new(options.list_bytes, options.max_waiting),
            low_priority: Arc::default(),
            core,
        }
    }

    /// Returns the number of clients' open watches.
    pub(crate) fn open_watches(&self) -> usize {
        self.watches.open()
    }

    /// Returns the number of clients' open watches by group and kind of the watched type.
    pub(crate) fn watches_by_type(&self) -> Vec<((String, String), usize)> {
        self.watched.counts()
    }

    /// Counts a watch of a type until the result is dropped.
    pub(super) fn count_watch(&self, wanted: &Gvk) -> WatchedType {
        self.watched.open(wanted)
    }

    /// Takes a place for a caller's watch.
    ///
    /// # Errors
    /// `ResourceExhausted`: too many watches.
    pub(super) fn open_watch(&self, caller: &Caller) -> Result<WatchPlace, Error> {
        self.watches.take(caller)
    }

    /// Makes the pace of a caller's watch that evaluates changes.
    pub(crate) fn pace(&self, caller: &Caller) -> WatchPace {
        self.paces.watch(caller.queue_key().holder)
    }

    /// Asks answers that are not read to give way to callers that wait. Returns whether any was asked, or a watch had
    /// to leave.
    pub(crate) fn press(&self, now: Instant) -> bool {
        let asked = self.snapshots.press(now) + self.bytes.press(now);
        if asked > 0 {
            metrics::counter!("mortise_unread_answers_replaced_total").increment(asked as u64);
        }
        self.watches.take_replaced() || asked > 0
    }

    /// Waits for the bytes of an answer, at most all of them.
    ///
    /// # Errors
    /// `ResourceExhausted`: too many lists and watches wait.
    pub(crate) async fn bytes_for(&self, caller: &Caller, bytes: usize) -> Result<Share, Error> {
        self.bytes.acquire(caller.queue_key(), self.bytes.total().min(bytes)).await.map_err(|e| self.no_room(e))
    }

    /// Returns the error for a refused share.
    pub(crate) fn no_room(&self, why: NoShare) -> Error {
        let total = self.bytes.total();
        Error::new(
            Code::ResourceExhausted,
            match why {
                NoShare::TooMuch => format!(
                    "the list is larger than the {total} bytes of all lists together (limit service.list_bytes); list fewer \
                     with a name_prefix or a tenancy, or watch, which has no such limit"
                ),
                NoShare::QueueFull => format!(
                    "{} lists and watches are waiting for others to be read (limit service.max_queued_lists); try again later",
                    self.core.options.max_waiting
                ),
            },
        )
    }
}
