//! The generated gRPC servers and clients: the resource API; Mortise's own services about plugins, types and
//! controllers, with the messages of this crate; and service discovery, with its own messages.

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

/// Service discovery: both forms of the destination API, and the messages of the catalog.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the .proto files have the documentation"
)]
pub mod discovery {
    include!(concat!(env!("OUT_DIR"), "/grpc/discovery.rs"));
}

/// Serialised `FileDescriptorSet` of the destination API, imports included.
pub const DISCOVERY_DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/grpc/discovery.bin"));

/// Header of a call with the id of the store that it is for; a server with another store refuses the call.
pub const STORE_HEADER: &str = "x-mortise-store";

/// Header of a call with the region that it is for; a server of another region, or of none, refuses the call.
pub const REGION_HEADER: &str = "x-mortise-region";

pub use discovery::{
    catalog::v1 as catalog, conduit,
    conduit::proxy::destination::destination_client::DestinationClient as ConduitDestinationClient,
    io::linkerd::proxy as linkerd,
    io::linkerd::proxy::destination::destination_client::DestinationClient as LinkerdDestinationClient,
    io::linkerd::proxy::identity::identity_client::IdentityClient,
    io::linkerd::proxy::inbound::inbound_server_policies_client::InboundServerPoliciesClient,
};
pub use mortise::{
    auth_service_client::AuthServiceClient, change_service_client::ChangeServiceClient,
    controller_service_client::ControllerServiceClient, function_service_client::FunctionServiceClient,
    ownership_service_client::OwnershipServiceClient, plugin_service_client::PluginServiceClient,
    query_service_client::QueryServiceClient, region_service_client::RegionServiceClient,
    server_service_client::ServerServiceClient, type_service_client::TypeServiceClient,
    watch_service_client::WatchServiceClient,
};
pub use resource::resource_service_client::ResourceServiceClient;
