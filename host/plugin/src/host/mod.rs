//! What guests may call: one file for each imported interface.

mod authorizer;
mod log;
