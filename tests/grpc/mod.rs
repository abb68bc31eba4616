//! The gRPC port: connections, reflection, and the services about the server and its types.

mod cancellations;
mod connections;
mod frames;
mod reflection;
mod server_service;
mod type_service;
