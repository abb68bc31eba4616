//! The order in which the watches of a run start: first every cache is complete, then every snapshot is queued, then
//! mappers and reconciles begin.

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The steps that all watches of a run must reach before the run goes on.
pub(crate) struct Priming {
    types: u32,
    /// A permit for each type whose part of the cache is complete.
    primed: Semaphore,
    /// Cancelled when every type is primed: each watch then queues its snapshot.
    pub(crate) all_primed: CancellationToken,
    /// A permit for each type whose snapshot waits in the queues.
    queued: Semaphore,
}

impl Priming {
    pub(crate) fn of(types: usize) -> Self {
        Self {
            types: u32::try_from(types).unwrap_or(u32::MAX),
            primed: Semaphore::new(0),
            all_primed: CancellationToken::new(),
            queued: Semaphore::new(0),
        }
    }

    /// Records that a type's part of the cache is complete.
    pub(crate) fn type_primed(&self) {
        self.primed.add_permits(1);
    }

    /// Records that a type's snapshot waits in the queues.
    pub(crate) fn type_queued(&self) {
        self.queued.add_permits(1);
    }

    /// Waits until every type is primed, lets the watches queue their snapshots, and waits for that.
    pub(crate) async fn finish(&self) {
        // The only error is a closed semaphore, and neither is ever closed.
        let _ = self.primed.acquire_many(self.types).await;
        self.all_primed.cancel();
        let _ = self.queued.acquire_many(self.types).await;
    }
}
