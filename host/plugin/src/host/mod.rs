//! What guests may call: one file for each imported interface.

mod authorizer;
mod cache;
mod clock;
mod config;
pub(crate) mod files;
mod kv;
mod log;
mod resources;
mod run;
mod secrets;
pub(crate) mod wasi;

use crate::{bindings, state::State};

// Interfaces of types alone: there is nothing to call.
impl bindings::types::mortise::plugin::types::Host for State {}
impl bindings::imports::mortise::plugin::failures::Host for State {}
