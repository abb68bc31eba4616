//! Transports: the resource API over gRPC with reflection and health, and a small HTTP port beside it.
//!
//! Nothing here decides anything: requests are decoded, handed to `service`, and its answers and errors are put on the
//! wire.

mod grpc;
mod http;
pub mod metrics;
mod reflection;
pub mod server;
mod status;

pub use server::{Bound, ServeError, ServerOptions, bind};

/// The generated gRPC stubs.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the documentation stands in the .proto file"
)]
pub mod stubs {
    include!(concat!(env!("OUT_DIR"), "/hashicorp.consul.resource.rs"));
}

pub use stubs::resource_service_client::ResourceServiceClient;
