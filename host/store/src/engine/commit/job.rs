//! Jobs of the commit thread.

use mortise_resource::EncodedResource;
use tokio::sync::oneshot;

use crate::{
    Batch, SnapshotHead, StoreError, Usage,
    check::Problem,
    engine::read::snapshot::SledSnapshot,
    follower::{Draft, DraftLimits, DraftedGrowth, FilledResource, FollowedCommit},
};

/// Channel for the answer to a caller.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;
/// Stored resources after a batch, for each mutation.
pub(crate) type Results = Vec<Option<EncodedResource>>;

/// Work for the commit thread.
pub(crate) enum Job {
    /// Applies a batch.
    Commit(Batch, Reply<Results>),
    /// Checks the whole store, with no write in flight.
    Check(Reply<Vec<Problem>>),
    /// Compares the next keys, this many, with the store's sums.
    Scrub(usize),
    /// Returns the totals of the store.
    Head(Reply<SnapshotHead>),
    /// Returns the use of tenancies, this many of them.
    Usage(usize, Reply<Usage>),
    /// Checks batches without storing anything.
    Draft(Vec<Batch>, (DraftLimits, DraftedGrowth), Reply<Draft>),
    /// Applies commits of the store that this one follows.
    Follow(Vec<FollowedCommit>, Reply<()>),
    /// Adds content of the store that this one follows.
    Fill(Vec<FilledResource>, Reply<()>),
    /// Ends the filling: the content is that of this sequence.
    Filled(u64, Reply<()>),
    /// Starts a snapshot.
    Snapshot(Reply<SledSnapshot>),
    /// Panics.
    #[cfg(test)]
    Panic,
}
