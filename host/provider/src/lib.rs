//! Types of a Mortise server as resources of Terraform and OpenTofu: a provider of protocol 6.5 (`docs/terraform.md`).
//! "Core" is the program that starts a provider and calls it: `terraform` or `tofu`.
//!
//! # Contract
//! The provider is a client: it uses only the calls of [`client::ResourceClient`]. The state of a run belongs to its
//! connection ([`rpc::Session`]). Faults are diagnostics with paths, never gRPC statuses, since core forgets created
//! resources when it gets a status. A plan depends on the prior state, the configuration and the server's rules alone.
//!
//! # Cost
//! A plan of a known configuration costs the server a MutateAndValidate; a creation costs that and a Write; an update
//! costs one Read more; a read costs a Read. Each connection asks for the types once.
//!
//! # Limits
//! Messages are at most 256 MiB. Values are bounded in depth and in digits ([`value`]), types in depth and in
//! attributes ([`mapping`]), waiting in time, connections in number ([`serve`]).

pub mod client;
pub mod mapping;
pub mod proto;
pub mod rpc;
pub mod schema;
pub mod serve;
pub mod state;
pub mod value;
