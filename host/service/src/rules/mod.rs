//! TODO

pub(crate) mod admit;
pub(crate) mod builtin_types;
pub(crate) mod deletion_rules;
pub(crate) mod hooks;
pub(crate) mod read;
pub(crate) mod region;
pub(crate) mod region_policy;
pub(crate) mod server_meta;
pub(crate) mod shards;
pub(crate) mod tenancy;
pub(crate) mod tombstone;
pub(crate) mod upgrade;
