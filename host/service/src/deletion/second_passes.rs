//! The waits between the two passes over the children of deleted resources.
//!
//! # Contract
//! A wait begins when this server first sees that the first pass is done, by its own count of time: the clock of another
//! server, or one that was set back, neither shortens nor prolongs it. After a restart, or when another server takes over
//! the reaper, it begins again.
//!
//! # Cost
//! 24 bytes for each tombstone that waits, [`MAX_WAITS`] at most; with more of them, all begin again.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::Duration,
};

use mortise_resource::pb;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Most waits that are known at a time.
const MAX_WAITS: usize = 1 << 20;

/// The waits of one server. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct SecondPasses {
    hash: RandomState,
    /// Ends of the waits, by the hash of the tombstone's place and name.
    due: Arc<Mutex<HashMap<u64, Instant>>>,
}

impl SecondPasses {
    /// Returns the rest of a tombstone's wait, which begins now if it is not known.
    pub(super) fn remaining(&self, tombstone: &pb::Id, wait: Duration) -> Duration {
        let now = Instant::now();
        let mut due = self.due.lock();
        if due.len() >= MAX_WAITS {
            due.clear();
        }
        due.entry(self.key(tombstone)).or_insert(now + wait).saturating_duration_since(now)
    }

    /// Forgets a tombstone that is gone.
    pub(super) fn forget(&self, tombstone: &pb::Id) {
        self.due.lock().remove(&self.key(tombstone));
    }

    fn key(&self, tombstone: &pb::Id) -> u64 {
        let tenancy = tombstone.tenancy.as_ref();
        let place = tenancy.map(|tenancy| (tenancy.partition.as_str(), tenancy.namespace.as_str()));
        self.hash.hash_one((place, tombstone.name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_lasts_as_long_as_it_is_and_once() {
        let waits = SecondPasses::default();
        let id = |name: &str| pb::Id { name: name.to_owned(), ..pb::Id::default() };
        let wait = Duration::from_secs(30);
        assert_eq!(waits.remaining(&id("a"), wait), wait);
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(waits.remaining(&id("a"), wait), Duration::from_secs(10));
        assert_eq!(waits.remaining(&id("b"), wait), wait);
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(waits.remaining(&id("a"), wait), Duration::ZERO);
        waits.forget(&id("a"));
        assert_eq!((waits.remaining(&id("a"), wait), waits.due.lock().len()), (wait, 2));
    }
}
