//! Signals that resources of the catalog have changed, for waiting questions.
//!
//! # Contract
//! A question waits for the slots of the resources from which its answer was made. A change of one of them after the
//! version of the store before the reads wakes it, also if the change came between the reads and the wait. A signal
//! carries no content: the question is answered again, as its caller. Resources may share a slot, so a question may
//! wake in vain. A change of a plugin wakes all questions.
//!
//! # Cost
//! The three types and the plugins are watched as the host, from the first waiting question until the end of the
//! server. The beginning reads them once, a page at a time. A change costs a look at two slots.
//!
//! # Limits
//! [`SLOTS`] slots. A question holds a number for each resource of its answer.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mortise_resource::{
    Error,
    backoff::{Backoff, Waits},
    pb,
    types::{Gvk, plugin},
};
use mortise_service::{ResourceService, WatchEvent};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep};
use tracing::Span;

use crate::{
    call::run_guarded,
    endpoints::{service_endpoints, slices, workloads},
};

/// Slots of resources.
const SLOTS: u32 = 65_536;

/// First and longest wait before a watch that ended is opened again.
const MIN_REOPEN_WAIT: Duration = Duration::from_millis(50);
const MAX_REOPEN_WAIT: Duration = Duration::from_secs(5);

/// Name that stands for all resources of a type in a namespace; no resource has it.
const EVERY: &str = "*";

/// The slot of a resource.
pub(super) fn slot(kind: &Gvk, tenancy: &pb::Tenancy, name: &str) -> u32 {
    slot_in(kind, (&tenancy.partition, &tenancy.namespace), name)
}

/// The slot of all resources of a type in a namespace.
pub(super) fn every(kind: &Gvk, tenancy: &pb::Tenancy) -> u32 {
    slot(kind, tenancy, EVERY)
}

fn slot_in(kind: &Gvk, place: (&str, &str), name: &str) -> u32 {
    // Strangers choose names.
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let hash = KEYS.hash_one((&kind.kind, place, name)) % u64::from(SLOTS);
    u32::try_from(hash).unwrap_or_default()
}

/// The signals.
pub(super) struct Changes {
    service: ResourceService,
    is_started: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Version of the store after the last change of each slot; empty before the first one.
    changed_at: Vec<u64>,
    /// Version of the store before which changes may have been missed.
    missed_before: u64,
    waiting: HashMap<u32, Vec<Arc<Notify>>>,
}

/// The wait of a question. Dropping it ends it.
pub(super) struct Wait {
    changes: Arc<Changes>,
    slots: Vec<u32>,
    signal: Arc<Notify>,
}

impl Changes {
    pub(super) fn new(service: ResourceService) -> Arc<Self> {
        Arc::new(Self { service, is_started: AtomicBool::new(false), state: Mutex::default() })
    }

    /// Waits for a change of one of the slots after the store had the version `since`.
    pub(super) fn wait(self: &Arc<Self>, mut slots: Vec<u32>, since: u64) -> Wait {
        if !self.is_started.swap(true, Ordering::AcqRel) {
            for kind in [service_endpoints(), slices(), workloads(), plugin()] {
                tokio::spawn(self.clone().run(kind));
            }
        }
        slots.sort_unstable();
        slots.dedup();
        let signal = Arc::new(Notify::new());
        let mut state = self.state.lock();
        let has_changed = |slot: &u32| state.changed_at.get(*slot as usize).is_some_and(|version| *version > since);
        if since < state.missed_before || slots.iter().any(has_changed) {
            signal.notify_one();
        }
        for slot in &slots {
            state.waiting.entry(*slot).or_default().push(signal.clone());
        }
        drop(state);
        Wait { changes: self.clone(), slots, signal }
    }

    /// Follows a type until the end of the server.
    async fn run(self: Arc<Self>, kind: Gvk) {
        let following = async {
            let mut waits = Waits::new(Backoff::new(MIN_REOPEN_WAIT, MAX_REOPEN_WAIT).with_jitter(0.25));
            loop {
                let followed = run_guarded(Span::none(), Box::pin(self.follow(&kind, &mut waits))).await;
                // Questions find out by themselves what is wrong: the plugin may be gone, for example.
                self.note_all();
                let wait = waits.next_wait();
                if let Err(error) = followed {
                    tracing::debug!(%error, ?wait, "the watch of {kind} for Consul's clients is opened again");
                }
                sleep(wait).await;
            }
        };
        tokio::select! {
            () = following => {}
            () = self.service.stopped() => {}
        }
    }

    async fn follow(&self, kind: &Gvk, waits: &mut Waits) -> Result<(), Error> {
        let mut watch = self.service.watch_type(&kind.to_pb()).await?;
        let mut is_live = false;
        loop {
            match watch.next().await? {
                WatchEvent::EndOfSnapshot => {
                    is_live = true;
                    waits.reset();
                    self.note_all();
                }
                // The catalog may be disabled, or another version of it.
                WatchEvent::Upsert(_) | WatchEvent::Delete(_) if is_live && *kind == plugin() => self.note_all(),
                WatchEvent::Upsert(resource) | WatchEvent::Delete(resource) if is_live => {
                    self.note(kind, (resource.partition(), resource.namespace()), resource.name());
                }
                WatchEvent::Upsert(_) | WatchEvent::Delete(_) => {}
            }
        }
    }

    /// Notes the change of a resource.
    fn note(&self, kind: &Gvk, place: (&str, &str), name: &str) {
        // A delete carries the version of the resource, not its own. The newest version is never too small.
        let version = self.service.backend().newest_version();
        let slots = [slot_in(kind, place, name), slot_in(kind, place, EVERY)];
        let mut state = self.state.lock();
        if state.changed_at.is_empty() {
            state.changed_at = vec![0; SLOTS as usize];
        }
        for slot in slots {
            if let Some(changed_at) = state.changed_at.get_mut(slot as usize) {
                *changed_at = version;
            }
            state.waiting.get(&slot).into_iter().flatten().for_each(|signal| signal.notify_one());
        }
    }

    /// Notes that any resource may have changed.
    fn note_all(&self) {
        let version = self.service.backend().newest_version();
        let mut state = self.state.lock();
        state.missed_before = state.missed_before.max(version);
        state.waiting.values().flatten().for_each(|signal| signal.notify_one());
    }
}

impl Wait {
    /// Resolves after a change.
    pub(super) async fn changed(&self) {
        self.signal.notified().await;
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut state = self.changes.state.lock();
        for slot in &self.slots {
            if let Some(waiting) = state.waiting.get_mut(slot) {
                waiting.retain(|signal| !Arc::ptr_eq(signal, &self.signal));
                if waiting.is_empty() {
                    state.waiting.remove(slot);
                }
            }
        }
    }
}
