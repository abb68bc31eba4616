//! Types of a Mortise server as resources of Terraform and OpenTofu: a provider of protocol 6.5 (`docs/terraform.md`).
//!
//! # Contract
//! The provider is a client: it has what [`client::ResourceClient`] answers, and nothing else of a server. What belongs to a run
//! belongs to a connection ([`rpc::Session`]). Faults are diagnostics with paths, never statuses, since core forgets what was
//! made when it gets one. A plan depends on the prior state, the configuration and the server's rules alone.
//!
//! # Cost
//! A plan of a configuration that is known costs the server a MutateAndValidate, a creation that and a Write, an update a Read
//! more, a read a Read. Types are asked for once by each connection.
//!
//! # Limits
//! Messages are at most 256 MiB. Values are bounded in depth and in digits ([`value`]), types in depth and in attributes
//! ([`mapping`]), waiting in time, connections in number ([`serve`]).

pub mod client;
pub mod mapping;
pub mod proto;
pub mod rpc;
pub mod schema;
pub mod serve;
pub mod state;
pub mod value;
