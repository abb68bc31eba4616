//! The options of the service.

use std::{sync::Arc, time::Duration};

use mortise_acl::Access;
use mortise_audit::AuditLog;

use super::rates::Rates;

/// Limits of the service. Part of config.toml.
#[derive(Debug, Clone)]
pub struct Options {
    /// Watches of clients that may be open at once; one more is refused.
    pub max_watches: usize,
    /// Those of one caller.
    pub caller_watches: usize,
    /// Watches of clients whose snapshot is being read at once; the others wait, callers by turns.
    pub max_snapshots: usize,
    /// Bytes of the lists of clients that are being read, or wait to be sent; further ones wait, callers by turns.
    pub list_bytes: usize,
    /// Lists and watches that may wait like that; one more is refused.
    pub max_waiting: usize,
    /// Resources that one search looks at; one that would look at more is refused.
    pub search_resources: usize,
    /// Bytes of the indexes of fields that types declare, together; types whose indexes do not fit have none.
    pub index_bytes: usize,
    /// Time that one search may take.
    pub search_time: Duration,
    /// Largest resource that is passed to hooks, bytes as [`mortise_store::limited_size`] counts them. The store has
    /// the same limit for the result of the hooks.
    pub max_resource_bytes: usize,
    /// Time from the reaper's first pass over the children of a deleted owner to its second, which finds children that
    /// were being created during the first.
    pub second_pass: Duration,
    /// Time that an owner reference may be to nothing.
    pub owner_grace: Duration,
    /// Requests a second.
    pub rates: Rates,
    /// Who may do what; `None` for everyone everything.
    pub access: Option<Arc<Access>>,
    /// The record of who did what, if there is one.
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
            rates: Rates::default(),
            access: None,
            audit: None,
            placement: Placement::default(),
        }
    }
}

/// What is computed of each resource when it is stored: this server's region, and the rings of shards.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    /// The region of this server; `None`: none, and nothing of regions is enforced.
    pub region: Option<String>,
    /// Sizes of the rings of which each resource has a shard.
    pub rings: Vec<u32>,
}
