//! The options of the service.

use std::{sync::Arc, time::Duration};

use mortise_acl::Access;
use mortise_audit::AuditLog;

use super::rates::Rates;

/// Limits of the service. Part of config.toml.
#[derive(Debug, Clone)]
pub struct Options {
    /// Limit of open watches of clients; further ones are refused.
    pub max_watches: usize,
    /// Limit of open watches of one caller.
    pub caller_watches: usize,
    /// Limit of client watches in the middle of their snapshot; the others wait, callers by turns.
    pub max_snapshots: usize,
    /// Bytes of client lists in memory, read or waiting to be sent; further lists wait, callers by turns.
    pub list_bytes: usize,
    /// Limit of waiting lists and watches; further ones are refused.
    pub max_waiting: usize,
    /// Limit of resources that one search reads; a search that needs more is refused.
    pub search_resources: usize,
    /// Bytes of all field indexes; a type whose indexes do not fit has none.
    pub index_bytes: usize,
    /// Longest time of one search.
    pub search_time: Duration,
    /// Largest resource that is passed to hooks, bytes as [`mortise_store::limited_size`] counts them. The store has
    /// the same limit for the result of the hooks.
    pub max_resource_bytes: usize,
    /// Time from the reaper's first pass over the children of a deleted owner to its second, which finds children that
    /// were being created during the first.
    pub second_pass: Duration,
    /// Time that an owner reference may have no target.
    pub owner_grace: Duration,
    /// Time between two passes over the tokens, which delete expired ones and store the last use.
    pub token_pass: Duration,
    /// Requests per second.
    pub rates: Rates,
    /// Tokens and policies; `None` allows everything to everyone.
    pub access: Option<Arc<Access>>,
    /// Audit log, if the server has one.
    pub audit: Option<AuditLog>,
    /// The region of the server, and the rings of shards.
    pub placement: Placement,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_watches: 10_000,
            caller_watches: 5_000,
            max_snapshots: 32,
            list_bytes: 256 << 20,
            max_waiting: 20_000,
            search_resources: 2_000_000,
            index_bytes: 256 << 20,
            search_time: Duration::from_secs(60),
            max_resource_bytes: 1 << 20,
            second_pass: Duration::from_secs(30),
            owner_grace: Duration::from_secs(300),
            token_pass: Duration::from_secs(10),
            rates: Rates::default(),
            access: None,
            audit: None,
            placement: Placement::default(),
        }
    }
}

/// Inputs of the computed part of each stored resource: this server's region, and the rings of shards.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    /// Region of this server; `None` turns all rules of regions off.
    pub region: Option<String>,
    /// Sizes of the rings; each resource has a shard in each ring.
    pub rings: Vec<u32>,
}
