//! The gRPC port: one file for each service, the connections, and the form of errors.

pub(crate) mod auth_service;
pub(crate) mod backup;
pub(crate) mod calls;
pub(crate) mod change_service;
pub(crate) mod connections;
pub(crate) mod content_type;
pub(crate) mod controller_service;
pub(crate) mod destination;
mod frames;
pub(crate) mod function_service;
pub(crate) mod health;
mod imports;
mod list;
pub(crate) mod ownership_service;
pub(crate) mod plugin_logs;
pub(crate) mod plugin_service;
mod preface;
pub(crate) mod query_service;
pub(crate) mod reflection;
pub(crate) mod region_service;
pub(crate) mod resource_service;
pub(crate) mod server_service;
mod services;
mod small_writes;
pub(crate) mod status;
pub(crate) mod type_service;
pub(crate) mod watch_service;
