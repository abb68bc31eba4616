//! Loads, limits, pools and calls WebAssembly components.
//!
//! A [`Sandbox`] is an engine with its ticker, its pool of instances and its compile cache. It turns a component's bytes
//! into a [`Plugin`]: imports checked, manifest read and checked, code compiled. A [`Call`] has one fresh instance of a
//! plugin for one request; its hooks are called one after the other and it is dropped.
//!
//! This crate knows the contract (`wit/`) and the manifest. It knows neither storage nor gRPC: which hook is called
//! when, and what its answer means to a caller, is the service's business.

mod bindings;
mod cache;
pub mod call;
mod configure;
mod contract;
pub mod engine;
pub mod error;
mod host;
pub mod limits;
pub mod manifest;
mod memo;
pub mod plugin;
pub mod pool;
pub mod session;
pub mod settings;
mod state;

pub use call::Call;
pub use engine::Sandbox;
pub use error::{HookError, HookFault, LoadError};
pub use limits::Limits;
pub use manifest::{Hooks, Manifest, TypeDecl};
pub use plugin::Plugin;
pub use pool::{PoolSize, address_space, physical_memory};
pub use session::{Decision, Mutated};
pub use settings::PluginSettings;
