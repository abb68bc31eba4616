//! The generated gRPC servers and clients: the resource API, and Mortise's own services about plugins, types and
//! controllers. Their messages are those of this crate.

/// The resource API.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the .proto file has the documentation"
)]
pub mod resource {
    include!(concat!(env!("OUT_DIR"), "/grpc/hashicorp.consul.resource.rs"));
}

/// The services about plugins, types and controllers.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the .proto files have the documentation"
)]
pub mod mortise {
    include!(concat!(env!("OUT_DIR"), "/grpc/mortise.v1.rs"));
}

pub use mortise::{
    controller_service_client::ControllerServiceClient, plugin_service_client::PluginServiceClient,
    server_service_client::ServerServiceClient, type_service_client::TypeServiceClient,
};
pub use resource::resource_service_client::ResourceServiceClient;
