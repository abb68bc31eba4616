//! Imports of guests: one file for each interface.

pub(crate) mod abort_reason;
mod ask;
mod authorizer;
mod cache;
mod cache_pages;
pub(crate) mod call_context;
mod check;
mod clock;
mod config;
pub(crate) mod files;
pub(crate) mod granted_dir;
mod kv;
mod log;
mod lookup;
pub(crate) mod lookup_host;
pub(crate) mod private_bytes;
mod probes;
mod queries;
pub(crate) mod reconciler_host;
mod resources;
mod run;
mod secrets;
pub(crate) mod state;
mod stdio;
pub(crate) mod tcp;
pub(crate) mod wasi;

use crate::{bindings, host::state::State};

// Interfaces with types alone: there are no functions to call.
impl bindings::types::mortise::plugin::types::Host for State {}
impl bindings::imports::mortise::plugin::failures::Host for State {}
