//! The ports of the server: gRPC with reflection, health and the destination API; HTTP with JSON, OpenAPI and metrics;
//! DNS. [`bind`] reserves them, [`ReservedPorts::open`] opens them, and [`OpenPorts::serve`] serves them until the
//! stop.
//!
//! # Contract
//! Nothing here decides about resources: a request is decoded and handed to `mortise-service`, and its answer or error
//! is encoded. `authenticate` finds the caller of each request on gRPC and HTTP, and checks the permission of methods
//! that are not about resources. A stop lets the calls in flight finish, for [`ServerOptions::grace`] at most.
//!
//! # Limits
//! Connections, calls of a caller, the bytes of requests and answers, and the time to send and to take them are
//! bounded: `grpc::calls`, `grpc::connections`, `http::listen` and `dns` describe how.

mod authenticate;
mod authority;
mod call;
mod configuration;
mod dns;
mod endpoints;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod grpc;
pub mod health;
mod http;
mod observability;
mod peer;
mod places;
mod planted;
mod port;
mod ports;
mod recent_messages;
pub mod server;
mod tasks;
mod tls;
mod transport;
mod write_health;

pub use authority::{AuthorityError, AuthorityFiles, IdentityOptions};
pub use configuration::Configuration;
pub use dns::{DnsOptions, ZonePreference};
pub use grpc::backup::begin as begin_backup;
pub use grpc::destination::DestinationOptions;
#[doc(hidden)]
pub use grpc::resource_service::WatchAnswers;
pub use http::{Allowed, HttpOptions};
pub use observability::{metrics, server_status::ServerInfo};
pub use ports::{ReservedPorts, bind};
pub use server::{OpenPorts, ServeError, ServerOptions, Services};
pub use tls::{ClientCerts, TlsError, TlsFiles, TlsOptions, TlsReload};
pub use transport::LocalConnections;

pub use mortise_resource::grpc::{
    AuthServiceClient, ChangeServiceClient, ConduitDestinationClient, ControllerServiceClient, FunctionServiceClient,
    IdentityClient, InboundServerPoliciesClient, LinkerdDestinationClient, OwnershipServiceClient, PluginServiceClient,
    QueryServiceClient, RegionServiceClient, ResourceServiceClient, ServerServiceClient, TypeServiceClient,
    WatchServiceClient, catalog, conduit, linkerd, mortise as plugin_stubs, resource as stubs,
};
