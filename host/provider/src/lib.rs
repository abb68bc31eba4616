//! Types of a Mortise server as resources of Terraform and OpenTofu: a provider of protocol 6.5.
pub mod client;
pub mod mapping;
pub mod proto;
pub mod rpc;
pub mod schema;
pub mod serve;
pub mod state;
pub mod value;
