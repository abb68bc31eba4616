//! The rules that every RPC applies: what may be written, by whom, in which place, and what the server adds to it.
//!
//! `admit` is the first half of every write; `hooks` are the hooks of a type for one request; `region` says which region
//! may write a resource.

pub(crate) mod admit;
pub(crate) mod builtin_types;
pub(crate) mod deletion_rules;
mod hooks;
mod read;
pub(crate) mod region;
pub(crate) mod region_policy;
pub(crate) mod server_meta;
pub(crate) mod shards;
mod tenancy;
pub(crate) mod tombstone;
pub(crate) mod upgrade;

pub(crate) use hooks::{ReadDecision, RequestHooks, refusal};
pub(crate) use read::{is_readable, read_checked};
pub(crate) use tenancy::{Place, PlaceError, proto_text};
