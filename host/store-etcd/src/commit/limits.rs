//! Bounds of batches and transactions.

use std::time::Duration;

use mortise_store::{Batch, Mutation, follower::DraftLimits};
use prost::Message as _;

use crate::record::Versions;

/// Most changes of a batch, and of all batches of a transaction. etcd takes 128 operations in a transaction.
pub const MAX_OPERATIONS: usize = 120;
/// Most operations of a transaction: etcd's default.
pub(super) const MAX_TRANSACTION: usize = 128;
/// Size of the changed resources at which a transaction ends, bytes; etcd takes 1.5 MiB.
pub(super) const MAX_BYTES: usize = 256 << 10;
/// Size of the changed resources of a batch with several that one transaction holds, beside those of [`MAX_BYTES`].
const MAX_BATCH_BYTES: usize = 1 << 20;
/// Most batches that wait.
pub(super) const MAX_WAITING: usize = 1_024;
/// Longest wait of a batch.
pub(super) const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the bounds of a draft on a copy with a revision.
pub(super) fn draft_limits(versions: Versions, known: i64) -> DraftLimits {
    DraftLimits { base: versions.last(known), operations: MAX_OPERATIONS, bytes: MAX_BYTES }
}

/// Returns whether no transaction can hold a batch.
pub(super) fn is_large(batch: &Batch) -> bool {
    let bytes = |mutation: &Mutation| match mutation {
        Mutation::Put(resource) | Mutation::Rewrite(resource) => resource.encoded_len(),
        Mutation::Delete { .. } => 0,
    };
    batch.mutations.len() + batch.expect.len() + batch.referrers.len() > MAX_OPERATIONS
        || (batch.mutations.len() > 1 && batch.mutations.iter().map(bytes).sum::<usize>() > MAX_BATCH_BYTES)
}
