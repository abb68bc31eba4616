//! Types of a Mortise server as resources of Terraform and OpenTofu: a provider of protocol 6.10 (`docs/terraform.md`).
//! "Core" is the program that starts a provider and calls it: `terraform` or `tofu`.
//!
//! # Contract
//! The provider is a client: it uses only the calls of [`client::ResourceClient`]. Core opens a connection for each
//! phase of a command (validate, plan, apply); the configuration and the server's types belong to the connection
//! ([`rpc::Session`]). Faults are diagnostics with paths, never gRPC statuses, since core forgets created resources
//! when it gets a status. A plan depends on the prior state, the configuration and the server's rules alone.
//!
//! Each module uses only those before it: [`proto`], [`value`], [`mapping`], [`schema`], [`docs`], [`state`],
//! [`client`], [`rpc`], [`serve`].
//!
//! # Cost
//! A plan of a known configuration costs the server a Plan, one of a creation a Read more, and one with unknown values
//! two Plans, or three if a plugin refuses the second. An owner in the place of the token costs a connection a WhoAmI.
//! Applying uses the plan that core made a moment ago on the connection, or makes the plan again; a creation costs a
//! Write more, and an update a Read and a Write. A read costs a Read, a planned deletion a Read and a PlanDelete, a
//! list a Search for each page. A short-lived token costs a Write and a Delete, and for each renewal a Read and a
//! Write; an action costs an Inspect in the plan, and its own call. Each connection asks for the types once; one
//! within a server's process, only after they changed. An update that changes a label, an annotation or a tag costs
//! its plan a Read more.
//!
//! # Limits
//! Messages are at most 256 MiB. Values are bounded in depth and in digits ([`value`]), types in depth and in
//! attributes ([`mapping`]), waiting in time, connections in number ([`serve`]).

pub mod client;
pub mod docs;
pub mod mapping;
pub mod proto;
pub mod rpc;
pub mod schema;
pub mod serve;
pub mod state;
pub mod value;
