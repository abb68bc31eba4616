//! What the commit thread is asked for.

use mortise_resource::EncodedResource;
use tokio::sync::oneshot;

use crate::{Batch, SnapshotHead, StoreError, Usage, check::Problem, engine::read::snapshot::SledSnapshot};

/// What a caller waits for.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;
/// The resources after a batch.
pub(crate) type Results = Vec<Option<EncodedResource>>;

/// Work for the commit thread.
pub(crate) enum Job {
    /// Apply a batch.
    Commit(Batch, Reply<Results>),
    /// Walk the whole store, with no write in flight.
    Check(Reply<Vec<Problem>>),
    /// Compare so many keys with their sums.
    Scrub(usize),
    /// What the store holds.
    Head(Reply<SnapshotHead>),
    /// What tenancies hold, so many of them.
    Usage(usize, Reply<Usage>),
    /// Begin a snapshot.
    Snapshot(Reply<SledSnapshot>),
    /// Panic.
    #[cfg(test)]
    Panic,
}
