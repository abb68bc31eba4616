//! The resource service: the rules of Consul's resource API, for every transport and every store.
//!
//! The crate is built in rooms. Each uses only those above it:
//!
//! | room | content |
//! |---|---|
//! | `core`, `registry` | the store, the options and the table of types, which every room gets |
//! | `call` | the frame of a call: caller, rates, audit, fair shares, errors of the store |
//! | `rules` | checks of writes and reads: shape, hooks, tenancy, regions |
//! | `lists`, `references` | lists and watches; references between resources |
//! | `region` | replicas of resources that other regions own |
//! | `deletion` | plans of deletions, and the controllers that finish them in the background |
//! | `query`, `change` | searches and their watches; plans, moves and imports |
//! | `rpc` | one file for each RPC, with its rules from top to bottom |
//! | `service` | the rooms, composed as [`ResourceService`] |
//!
//! Beside the rooms, `planted` has faults for tests, `access` follows tokens and policies, `access_upkeep` deletes
//! expired tokens, and `private_bytes` and [`kv`] hold the state of plugins.
//!
//! One call uses one snapshot of the registry from beginning to end.

mod access;
mod access_upkeep;
mod call;
mod change;
mod core;
mod deletion;
pub mod kv;
mod lists;
mod planted;
mod private_bytes;
mod query;
mod references;
mod region;
pub mod registry;
mod rpc;
mod rules;
mod service;

pub use access_upkeep::USE_KEY;
pub use call::{AT_LEAST_HEADER, Call, Caller, CallerCounts, OpenCount, Origin, Reader, Remote, Source, Surface};
pub use change::UpgradeReport;
pub use core::{Options, Placement, Rates};
pub use deletion::RemovalError;
pub use lists::{EncodedList, Events, TypeWatch};
pub use mortise_store::{Consistency, WatchEvent};
pub use private_bytes::PrivateBytes;
pub use query::{ResourceChanges, ResourcesChanges};
pub use region::{
    AcceptedStore, ApplySummary, HeldReplicas, MAX_DEFERRED, OwnerStore, Replicas, ReplicatedChange,
    ReplicationProgress, may_be_in, uid_number,
};
pub use rpc::{Asked, Certification, Computation, Deleted, ListQuery, Written};
pub use rules::upgrade::schema_version;
pub use service::ResourceService;
