//! The HTTP port: Consul's mapping, types, queries, watches, limits.

mod create;
mod limits;
mod mapping;
mod negotiation;
mod page;
mod patch;
mod query;
mod rpc;
mod types;
mod watch;
