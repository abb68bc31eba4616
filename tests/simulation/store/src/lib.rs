//! The store's commit queue, watch hubs and publisher under shuttle, a randomized scheduler of threads.
//!
//! The files of the store are compiled a second time here. `parking_lot` is then [`locks`], so that every lock and
//! every wait of the store is a point at which the scheduler may go on with any other thread. The shipped store is the
//! same with and without this crate.
//!
//! # Contract
//! [`queue::run`], [`hubs::run`] and [`commits::run`] are one course each: a few threads that do what the callers of the store do, and
//! checks that panic. [`explore`] makes many courses from a seed; the seed of a failed one is printed.
//!
//! # Limits
//! Atomic numbers, and the semaphore and channels of tokio, are single steps. Disk and table are models: a log in
//! memory, and a map that shows one key after the other.

#![allow(
    rustdoc::broken_intra_doc_links,
    rustdoc::private_intra_doc_links,
    reason = "the files link to parts of the store that are not here"
)]
#![allow(dead_code, reason = "the files of the store have more than a simulation uses")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "courses panic to report")]

// The files of the store name this crate by it.
extern crate self as parking_lot;

#[path = "../../../../host/store/src/backend.rs"]
pub mod backend;
#[path = "../../../../host/store/src/changes.rs"]
pub mod changes;
#[path = "../../../../host/store/src/copies.rs"]
mod copies;
#[path = "../../../../host/store/src/error.rs"]
pub mod error;
#[path = "../../../../host/store/src/ids.rs"]
mod ids;
#[path = "../../../../host/store/src/members.rs"]
mod members;
#[path = "../../../../host/store/src/quota.rs"]
pub mod quota;
#[path = "../../../../host/store/src/referrers.rs"]
mod referrers;
#[path = "../../../../host/store/src/resource_size.rs"]
mod resource_size;
#[path = "../../../../host/store/src/set_hash.rs"]
mod set_hash;
#[path = "../../../../host/store/src/snapshot.rs"]
mod snapshot;
#[path = "../../../../host/store/src/terms.rs"]
mod terms;

/// The simulated part of the engine.
#[path = "../../../../host/store/src/engine"]
mod engine {
    pub(crate) mod commit {
        pub(crate) mod queue;
    }
    pub(crate) mod metrics;
    pub(crate) mod planted;
    pub(crate) mod read {
        pub(crate) mod filter;
        pub(crate) mod hub;
        pub(crate) mod published_head;
        pub(crate) mod publisher;
        pub(crate) mod type_hubs;
    }
    pub(crate) mod tree {
        pub(crate) mod change;
        pub(crate) mod keys;

        /// Edits of the log, which is a model here.
        pub(crate) mod write_batch {
            /// The edits of a group.
            #[derive(Debug, Default, Clone)]
            pub(crate) struct WriteBatch;
        }
    }
}

pub mod commits;
mod dice;
pub mod explore;
pub mod hubs;
pub mod locks;
pub mod queue;

pub use backend::{Batch, Cursor, Expectation, Mutation, Query, ScanPart, WatchEvent};
pub use changes::{ChangeEvent, PastContent, Position, PriorState};
pub use copies::{CopiedPart, CopyCursor, CopyRequest};
pub use error::{IdPartError, StoreError};
pub use ids::{ExpectedId, ListKey, TypeKey};
pub use locks::{Condvar, Mutex, MutexGuard};
pub use quota::{Quota, Quotas, Usage};
pub use referrers::{COMMIT_BEHAVIOURS, DEFERRED_BEHAVIOURS};
pub use resource_size::limited_size;
pub use terms::{Term, TermField, TermSubject};

/// Id of a store, which no simulation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreId;
