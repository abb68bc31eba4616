//! Transports: the resource API over gRPC, with reflection and health, and over HTTP/JSON, with metrics.
//!
//! Nothing here decides anything: requests are decoded, handed to `service`, and its answers and errors are put on the
//! wire.

mod backup;
mod call;
mod controllers;
mod grpc;
mod health;
mod http;
mod incoming;
mod logs;
pub mod metrics;
mod plugins;
mod port;
mod process;
mod reflection;
mod requests;
pub mod server;
mod server_service;
mod server_status;
mod status;
mod types;

pub use http::HttpOptions;
pub use server::{Bound, Parts, ServeError, ServerOptions, bind};
pub use server_status::About;

pub use mortise_resource::grpc::{
    ControllerServiceClient, PluginServiceClient, ResourceServiceClient, ServerServiceClient, TypeServiceClient,
    mortise as plugin_stubs, resource as stubs,
};
