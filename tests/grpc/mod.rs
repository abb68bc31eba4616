//! The gRPC port: connections, reflection, and the services about the server and its types.

mod calls;
mod cancellations;
mod connections;
pub mod frames;
mod mistakes;
mod reflection;
mod server_service;
mod type_service;
