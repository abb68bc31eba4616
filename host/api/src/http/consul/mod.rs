//! Consul's read paths: the catalog in the form that Consul's clients ask for. docs/consul.md has the mapping.
//!
//! | path | file |
//! |---|---|
//! | `/v1/status/…`, `/v1/agent/self`, `/v1/catalog/datacenters` | `agent` |
//! | the other read paths below `/v1/catalog` and `/v1/health` | `question`, `answer` |
//! | every other path of Consul's | `refused` |
//!
//! # Contract
//! A [`Question`](question::Question) is read from the resource service as the caller, at each request: `reads` finds
//! the endpoints, their slices and workloads, `instance` joins them, and `print` and `filter` make the JSON. An answer
//! has an index that changes only if the answer does (`index`). A question with the index of its present answer waits
//! for the next one (`blocked`); `changes` tells it when something it was made from has changed.
//!
//! # Cost
//! A question about a service costs a read of its endpoints and of each slice, and one BatchGet for 250 workloads.
//! The others read the three types in one namespace; two of them are answered at once. A waiting question costs nothing
//! until a resource that it was made from changes. Then it is answered once, for all clients that wait for it.
//!
//! # Limits
//! [`reads`] bounds the resources of an answer, [`answer`] its bytes, and [`blocked`] the waiting questions.

mod agent;
mod answer;
mod blocked;
mod changes;
mod dispatch;
mod duration;
mod filter;
mod filter_text;
mod headers;
mod index;
mod instance;
mod parameters;
mod places;
mod print;
mod question;
mod reads;
mod refused;
mod text;

pub(crate) use agent::Facts;
pub(super) use answer::Consul;
pub(super) use dispatch::consul;

/// First elements of Consul's paths below `/v1/`.
const AREAS: [&str; 23] = [
    "acl",
    "agent",
    "catalog",
    "config",
    "connect",
    "coordinate",
    "discovery-chain",
    "event",
    "exported-services",
    "health",
    "imported-services",
    "internal",
    "kv",
    "namespace",
    "namespaces",
    "operator",
    "partition",
    "partitions",
    "peering",
    "peerings",
    "query",
    "session",
    "status",
];

/// Areas that are single paths, or have no further elements of use here.
const SINGLE: [&str; 2] = ["snapshot", "txn"];

/// Tells whether a path is one of Consul's, served or not. Its errors are plain text.
pub(super) fn has_path(path: &str) -> bool {
    let area = path.strip_prefix("/v1/").and_then(|rest| rest.split('/').next());
    area.is_some_and(|area| AREAS.contains(&area) || SINGLE.contains(&area))
}
