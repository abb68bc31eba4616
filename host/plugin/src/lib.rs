//! Loads, limits, pools and calls WebAssembly components.
//!
//! A [`Sandbox`] is an engine with its ticker, its pool of instances and its compile cache. It turns a component's bytes
//! into a [`Plugin`]: imports checked, manifest read and checked, code compiled. A [`Call`] has one fresh instance of a
//! plugin for one request; its hooks are called one after the other and it is dropped.
//!
//! This crate knows the contract (`wit/`) and the manifest. It knows neither storage nor gRPC: which hook is called
//! when, and what its answer means to a caller, is the service's business.

mod backtrace;
mod bindings;
mod breaker;
mod cache;
pub mod call;
mod contract;
pub mod engine;
pub mod error;
pub mod health;
mod hook;
mod host;
pub mod limits;
pub mod logs;
pub mod manifest;
mod memo;
mod meter;
pub mod plugin;
pub mod session;
mod state;
mod throttle;

pub use breaker::{HealthState, Quarantine};
pub use call::Call;
pub use engine::{Policy, PoolSize, Sandbox, physical_memory};
pub use error::{HookError, HookFault, LoadError};
pub use health::{Health, HealthReport, HookHealth};
pub use limits::Limits;
pub use logs::{LogLine, LogSettings, Logs};
pub use manifest::{Hooks, Manifest, TypeDecl};
pub use plugin::Plugin;
pub use session::{Decision, Mutated};
