//! The HTTP port: Consul's mapping, types, queries, watches, limits.

mod limits;
mod mapping;
mod query;
mod types;
mod watch;
