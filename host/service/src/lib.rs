//! The resource service: the rules of Consul's resource API, whatever the transport and the store.
//!
//! Each RPC has one file, which reads from top to bottom as the rules it enforces, in the order in which callers see
//! them. RPCs share `admit` (the first half of every write), `hooks` (the hooks of a type), `tenancy` and `retry`.
//! `reaper`, a controller, and `tenancy_cleanup` finish deletions in the background. Controllers watch through
//! `type_watch`.
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
pub use deletion::carry_out::RemovalError;
pub use lists::{checked_list::EncodedList, type_watch::TypeWatch};
pub use mortise_store::{Consistency, WatchEvent};
pub use query::watch::{ResourceChanges, ResourcesChanges};
pub use region::{
    incoming::{may_be_in, uid_number},
    progress::{CopyProgress, MAX_HELD_BACK},
    replicas::{Copied, CopyChange},
};
pub use rpc::{delete::Deleted, watch_list::Events, write::Written};
pub use rules::upgrade::schema_version;
pub use service::ResourceService;
