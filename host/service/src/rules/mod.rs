//! The rules that every RPC applies: the allowed content of a write, its permissions and place, and the server's
//! additions to it.
//!
//! # Contract
//! [`admit`] is the first half of every write. `hooks` are the hooks of a type for one request. [`region`] decides
//! which region may write a resource. No rule writes to the store. The look-up of a place returns expectations, which
//! the commit checks.
//!
//! # Cost
//! One instance of the plugin for the hooks of a request, and at most one read for each unit of the place.

mod accept;
pub(crate) mod access_rules;
pub(crate) mod admit;
pub(crate) mod builtin_types;
pub(crate) mod deletion_rules;
mod hook_call;
mod hooks;
mod owner;
mod read;
pub(crate) mod region;
pub(crate) mod region_policy;
pub(crate) mod replacement;
pub(crate) mod server_meta;
pub(crate) mod shards;
mod tenancy;
pub(crate) mod tombstone;
pub(crate) mod upgrade;

pub(crate) use hooks::{ReadDecision, RequestHooks, may_read_all, refusal};
pub(crate) use owner::{is_owner_there, resolve_owner};
pub(crate) use read::{is_readable, may_read_name, read_checked};
pub(crate) use tenancy::{TenancyUnits, UnitError, proto_text};
pub(crate) use upgrade::oldest_current;
