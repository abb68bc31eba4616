//! The generated gRPC services and clients, which servers and clients share: the resource API, and ours about plugins,
//! types and controllers. The messages are `mortise-resource`'s; nothing here knows who serves or asks.

/// The resource API.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the documentation stands in the .proto file"
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
    reason = "generated; the documentation stands in the .proto files"
)]
pub mod mortise {
    include!(concat!(env!("OUT_DIR"), "/grpc/mortise.v1.rs"));
}

pub use mortise::{
    controller_service_client::ControllerServiceClient, plugin_service_client::PluginServiceClient,
    server_service_client::ServerServiceClient, type_service_client::TypeServiceClient,
};
pub use resource::resource_service_client::ResourceServiceClient;
