//! The resource service: the rules of Consul's resource API, whatever the transport and the store.
//!
//! The crate is built in rooms. Each uses only those above it:
//!
//! | room | content |
//! |---|---|
//! | `core`, `registry` | the store, the options and the table of types, which every room gets |
//! | `call` | one call: caller, audit, fair shares, errors of the store |
//! | `rules` | what may be written, by whom and where: shape, hooks, tenancy, regions |
//! | `lists`, `references` | lists and watches; what resources refer to |
//! | `region` | replicas of what other regions own |
//! | `deletion` | plans of deletions, and the controllers that finish them in the background |
//! | `query`, `change` | searches and their watches; plans, moves and imports |
//! | `rpc` | one file for each RPC, which reads from top to bottom as the rules it enforces |
//! | `service` | the rooms, composed as [`ResourceService`] |
//!
//! Beside them stand `access`, which follows tokens and policies, `private_bytes` and [`kv`], which hold what plugins keep.
//!
//! One call uses one snapshot of the registry from beginning to end.

mod access;
mod call;
mod change;
mod core;
mod deletion;
pub mod kv;
mod lists;
mod private_bytes;
mod query;
mod references;
mod region;
pub mod registry;
mod rpc;
mod rules;
mod service;

pub use call::{
    audit::Call,
    caller::{Caller, Source},
    caller_counts::{CallerCounts, CountedOne},
    origin::{Origin, Remote, Surface},
};
pub use change::upgrade_stored::UpgradeReport;
pub use core::{
    options::{Options, Placement},
    rates::Rates,
};
pub use deletion::error::RemovalError;
pub use lists::{checked_list::EncodedList, events::Events, type_watch::TypeWatch};
pub use mortise_store::{Consistency, WatchEvent};
pub use private_bytes::PrivateBytes;
pub use query::watch::{resources::ResourcesChanges, single::ResourceChanges};
pub use region::{
    incoming::{may_be_in, uid_number},
    progress::{MAX_DEFERRED, ReplicationProgress},
    regions::Regions,
    replicas::{ApplySummary, ReplicatedChange},
};
pub use rpc::{delete::Deleted, write::Written};
pub use rules::upgrade::schema_version;
pub use service::ResourceService;
