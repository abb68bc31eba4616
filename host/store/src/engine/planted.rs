//! Faults on purpose: `mortise-proof planted` shows with them that histories find faults.
//!
//! Only builds with the feature `planted-faults` have them, where `MORTISE_PLANTED_FAULT` names the fault. No build has
//! the feature by default, and a release build with it does not compile. Without it, the functions of this module do
//! nothing, and the compiler removes them.

#[cfg(all(feature = "planted-faults", not(debug_assertions)))]
compile_error!("the feature planted-faults is for tests; build without it");

/// A fault of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An event is not sent.
    LostEvent,
    /// Versions are compared before the lock, so that another write may come between.
    CasBeforeLock,
    /// A watch that resumes gets the last change again.
    DuplicateOnResume,
    /// A commit is acknowledged before it is on disk.
    #[cfg(feature = "planted-faults")]
    AckBeforeSync,
    /// Events are sent before reads show their commit.
    #[cfg(feature = "planted-faults")]
    EventBeforeVisible,
    /// The events of a commit group are sent in another order.
    #[cfg(feature = "planted-faults")]
    SwappedEvents,
    /// A read shows an earlier state.
    #[cfg(feature = "planted-faults")]
    StaleRead,
    /// Versions are given again after a kill.
    #[cfg(feature = "planted-faults")]
    VersionReused,
}

#[cfg(not(feature = "planted-faults"))]
pub(crate) use off::*;
#[cfg(feature = "planted-faults")]
pub(crate) use on::*;

#[cfg(not(feature = "planted-faults"))]
mod off {
    use mortise_resource::{EncodedResource, pb};

    use super::Fault;
    use crate::engine::tree::{change::Change, write_batch::WriteBatch};

    /// Whether the fault happens now.
    pub(crate) const fn happens(_: Fault) -> bool {
        false
    }

    /// Passes on the batch to make durable.
    pub(crate) fn durable<T>(batch: &WriteBatch, append: impl FnOnce(&WriteBatch) -> T) -> T {
        append(batch)
    }

    /// Shows a commit, or returns the function that is to show it after its events.
    pub(crate) fn show_or_defer<F: FnOnce()>(show: F) -> Option<F> {
        show();
        None
    }

    /// Returns changes in the order of their events.
    pub(crate) fn order(changes: &[Change]) -> std::slice::Iter<'_, Change> {
        changes.iter()
    }

    /// Returns the state that a read shows.
    pub(crate) fn shown(_: &pb::Id, found: EncodedResource) -> EncodedResource {
        found
    }

    /// Returns the version after which a store continues that was not closed.
    pub(crate) const fn highest(highest: u64) -> u64 {
        highest
    }
}

#[cfg(feature = "planted-faults")]
mod on {
    use std::{
        collections::HashMap,
        sync::{
            LazyLock,
            atomic::{AtomicU64, Ordering},
        },
        time::Duration,
    };

    use mortise_resource::{EncodedResource, pb};
    use parking_lot::Mutex;

    use super::Fault;
    use crate::engine::tree::{change::Change, write_batch::WriteBatch};

    static CHOSEN: LazyLock<String> = LazyLock::new(|| std::env::var("MORTISE_PLANTED_FAULT").unwrap_or_default());
    static OCCASIONS: AtomicU64 = AtomicU64::new(1);

    /// Whether the chosen fault is this one, and its turn has come.
    pub(crate) fn happens(fault: Fault) -> bool {
        let every = match fault {
            Fault::AckBeforeSync | Fault::VersionReused | Fault::DuplicateOnResume => 1,
            Fault::SwappedEvents | Fault::EventBeforeVisible => 7,
            Fault::LostEvent | Fault::StaleRead | Fault::CasBeforeLock => 97,
        };
        *CHOSEN == format!("{fault:?}") && OCCASIONS.fetch_add(1, Ordering::Relaxed) % every == 0
    }

    /// Passes on the batch to make durable: for the fault, the one before.
    pub(crate) fn durable<T>(batch: &WriteBatch, append: impl FnOnce(&WriteBatch) -> T) -> T {
        static KEPT: Mutex<Option<WriteBatch>> = Mutex::new(None);
        if happens(Fault::AckBeforeSync) {
            let former = KEPT.lock().replace(batch.clone()).unwrap_or_default();
            return append(&former);
        }
        append(batch)
    }

    /// Shows a commit, or returns the function that is to show it after its events.
    #[allow(clippy::disallowed_methods, reason = "the pause is the fault")]
    pub(crate) fn show_or_defer(show: impl FnOnce()) -> Option<impl FnOnce()> {
        if happens(Fault::EventBeforeVisible) {
            return Some(move || {
                std::thread::sleep(Duration::from_millis(5));
                show();
            });
        }
        show();
        None
    }

    /// Returns changes in the order of their events.
    pub(crate) fn order(changes: &[Change]) -> std::vec::IntoIter<&Change> {
        let mut changes: Vec<_> = changes.iter().collect();
        if changes.len() > 1 && happens(Fault::SwappedEvents) {
            changes.reverse();
        }
        changes.into_iter()
    }

    /// Returns the state that a read shows: for the fault, now and then that of an earlier read.
    pub(crate) fn shown(id: &pb::Id, found: EncodedResource) -> EncodedResource {
        static SEEN: LazyLock<Mutex<HashMap<String, EncodedResource>>> = LazyLock::new(Mutex::default);
        let before = SEEN.lock().insert(format!("{:?}{}", id.tenancy, id.name), found.clone());
        before.filter(|before| before.uid() == found.uid() && happens(Fault::StaleRead)).unwrap_or(found)
    }

    /// Returns the version after which a store continues that was not closed.
    pub(crate) fn highest(highest: u64) -> u64 {
        let skipped = 1 << 22;
        if happens(Fault::VersionReused) { highest.saturating_sub(skipped + 50) } else { highest }
    }
}
