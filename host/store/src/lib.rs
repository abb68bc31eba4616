//! Storage of resources: the contract, and the engine behind it.
//!
//! - [`backend`]: the contract and its words: guarantees, costs, incarnation, event, sequence, history. Begin here.
//! - [`error`]: errors of a store.
//! - [`quota`]: limits of tenancies, and their use.
//! - [`changes`]: watches that tell the state before each change, and that continue after a restart. A [`Term`] limits
//!   the changes that wake such a watch.
//! - [`ExpectedReferrers`]: the references to a resource, which a deletion expects to be unchanged.
//! - [`Snapshot`]: the whole content, for backups.
//! - [`follower`]: a store as the local copy of one that several servers share.
//! - [`plans`]: plans for plugins, of several servers that share a store.
//! - [`SledBackend`]: the engine, for one machine. docs/storage-format.md describes its files.
//! - [`check`]: findings of a check of a whole store.
//! - `conformance`, behind the feature of that name: the tests that every backend passes.

pub mod backend;
pub mod changes;
pub mod check;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod copies;
mod engine;
pub mod error;
pub mod follower;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod ids;
mod members;
pub mod plans;
pub mod quota;
mod referrers;
mod resource_size;
mod set_hash;
mod snapshot;
mod terms;

pub use backend::{
    Backend, Batch, Consistency, Cursor, Expectation, Health, Mutation, Query, ScanPart, Stats, Watch, WatchEvent,
};
pub use changes::{ChangeEvent, ChangeStep, ChangeWatch, OpenedChanges, PastContent, Position, PriorState};
pub use copies::{CopiedPart, CopyCursor, CopyRequest};
pub use engine::{Compaction, Comparison, FORMAT, Loader, Lock, Options, SledBackend, StoreId};
pub use error::{IdPartError, StoreError};
pub use ids::{ExpectedId, ListKey, TypeKey};
pub use members::{Member, MemberInfo, Members};
pub use quota::{Quota, QuotaExceeded, Quotas, TenancyUsage, TypeUsage, Usage};
pub use referrers::{COMMIT_BEHAVIOURS, DEFERRED_BEHAVIOURS, ExpectedReferrers, ReferrerSet};
pub use resource_size::limited_size;
pub use set_hash::{SetHash, SetHashError};
pub use snapshot::{Record, RecordKind, Snapshot, SnapshotHead};
pub use terms::{Term, TermField, TermSubject};
