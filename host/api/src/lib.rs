//! Transports: the resource API over gRPC, with reflection and health, and over HTTP/JSON, with metrics.
//!
//! Nothing here decides about resources: requests are decoded and handed to `service`, and its answers and errors go
//! onto the wire.

mod authenticate;
mod call;
mod dns;
mod endpoints;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod grpc;
mod http;
mod local_socket;
mod observability;
mod peer;
mod port;
pub mod server;
mod tasks;
mod tls;
mod transport;
mod write_health;

pub use dns::DnsOptions;
pub use grpc::destination::DestinationOptions;
pub use http::HttpOptions;
pub use observability::{metrics, server_status::ServerInfo};
pub use server::{OpenPorts, ServeError, ServerOptions, Services, bind};
pub use tls::{ClientCerts, TlsError, TlsOptions};

pub use mortise_resource::grpc::{
    AuthServiceClient, ChangeServiceClient, ConduitDestinationClient, ControllerServiceClient, FunctionServiceClient,
    LinkerdDestinationClient, OwnershipServiceClient, PluginServiceClient, QueryServiceClient, RegionServiceClient,
    ResourceServiceClient, ServerServiceClient, TypeServiceClient, WatchServiceClient, catalog, conduit, linkerd,
    mortise as plugin_stubs, resource as stubs,
};
