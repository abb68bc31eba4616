//! The resource service: the rules of Consul's resource API, whatever the transport and the store.
//!
//! Each RPC has one file, which reads from top to bottom as the rules it enforces, in the order in which callers see
//! them. RPCs share `admit` (the first half of every write), `hooks` (the hooks of a type), `tenancy` and `retry`.
//! `reaper`, a controller, and `tenancy_cleanup` finish deletions in the background. Controllers watch through
//! `type_watch`.
//!
//! One call uses one snapshot of the registry from beginning to end.

mod access;
mod admit;
mod audit;
mod builtin;
mod caller;
mod caller_counts;
mod can;
mod change;
mod checked_list;
mod delete;
mod deletion_rules;
mod fair;
mod functions;
mod hooks;
mod ids;
mod list;
mod list_by_owner;
mod mutate_and_validate;
mod open_watch;
mod origin;
mod ownership;
mod private_bytes;
mod query;
mod rates;
mod read;
mod reaper;
mod references;
mod region;
pub mod registry;
mod removal;
mod request_id;
mod retry;
mod ruled_caller;
mod server_meta;
mod service;
mod shards;
mod store_fault;
mod tenancy;
mod tenancy_cleanup;
mod type_watch;
mod upgrade;
pub mod values;
mod watch_list;
mod write;
mod write_status;

pub use audit::Call;
pub use caller::{Caller, Source};
pub use caller_counts::{CallerCounts, CountedOne};
pub use checked_list::EncodedList;
pub use delete::Deleted;

pub use mortise_store::{Consistency, WatchEvent};
pub use origin::{Origin, Remote, Surface};
pub use query::watch::{ResourceChanges, ResourcesChanges};
pub use rates::Rates;
pub use references::carry_out::RemovalError;
pub use region::{Copied, CopyChange, CopyProgress, MAX_HELD_BACK, Placement, may_be_in, uid_number};
pub use service::{Options, ResourceService};
pub use type_watch::TypeWatch;
pub use upgrade::{UpgradeReport, schema_version};
pub use watch_list::Events;
pub use write::Written;
