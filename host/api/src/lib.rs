//! Transports: the resource API over gRPC with reflection and health, and a small HTTP port beside it.
//!
//! Nothing here decides anything: requests are decoded, handed to `service`, and its answers and errors are put on the
//! wire.

mod controllers;
mod grpc;
mod http;
mod logs;
pub mod metrics;
mod plugins;
mod reflection;
pub mod server;
mod status;
mod types;

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

/// The generated gRPC stubs of the services about plugins, types and controllers.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the documentation stands in the .proto files"
)]
pub mod plugin_stubs {
    include!(concat!(env!("OUT_DIR"), "/mortise.v1.rs"));
}

pub use plugin_stubs::{
    controller_service_client::ControllerServiceClient, plugin_service_client::PluginServiceClient,
    type_service_client::TypeServiceClient,
};
pub use stubs::resource_service_client::ResourceServiceClient;
