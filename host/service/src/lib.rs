//! The resource service: the rules of Consul's resource API, whatever the transport and the store.
//!
//! One file for each RPC, each reading from top to bottom as the rules it enforces, in the order in which callers see
//! them. What several RPCs share stands in `admit` (the first half of every write), `judge` (the hooks of a type),
//! `tenancy` and `retry`. `reaper`, a controller, and `drain` finish in the background what a deletion began. `follow` is what
//! controllers watch through.
//!
//! One call uses one snapshot of the registry from beginning to end.

mod admit;
mod builtin;
mod caller;
mod delete;
mod drain;
mod follow;
mod judge;
mod list;
mod list_by_owner;
mod mutate_and_validate;
mod read;
mod reaper;
pub mod registry;
mod removal;
mod retry;
mod service;
mod stamp;
mod tenancy;
mod upgrade;
pub mod values;
mod vet;
mod watch_list;
mod write;
mod write_status;

pub use caller::Caller;
pub use follow::Following;
pub use mortise_store::Consistency;
pub use service::{Options, ResourceService};
pub use upgrade::{UpgradeReport, schema_version};
pub use watch_list::Events;
