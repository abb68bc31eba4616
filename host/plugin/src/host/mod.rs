//! What guests may call: one file for each imported interface.

mod authorizer;
mod config;
mod log;
pub(crate) mod wasi;
