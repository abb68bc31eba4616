//! Loads, limits, pools and calls WebAssembly components.
//!
//! A [`Sandbox`] is an engine with its ticker, its pool of instances and its compile cache. It turns a component's bytes
//! into a [`Plugin`]: imports checked, manifest read and checked, code compiled. A [`Call`] has one fresh instance of a
//! plugin for one request; its hooks are called one after the other and it is dropped. A [`Reconciler`] calls a plugin's
//! controllers, in warm instances of a second engine; whoever runs them answers their questions ([`ReconcilerHost`]).
//!
//! This crate knows the contract (`wit/`) and the manifest. It knows neither storage nor gRPC: which hook is called
//! when, and what its answer means to a caller, is the service's business.

mod aside;
mod backtrace;
mod bindings;
mod breaker;
mod cache;
pub mod call;
mod configure;
mod confinement;
mod contract;
pub mod controllers;
mod descriptors;
pub mod engine;
pub mod error;
pub mod extract;
mod folder;
pub mod grants;
pub mod health;
mod hook;
mod host;
mod http_hosts;
pub mod limits;
pub mod logs;
pub mod manifest;
mod memo;
mod meter;
pub mod permission;
pub mod plugin;
pub mod pool;
mod prepare;
pub mod reconcile_limits;
pub mod reconciler;
pub mod reconciler_host;
mod running;
pub mod session;
pub mod settings;
mod state;
pub mod surface;
mod throttle;
pub mod under_way;
mod warm;
mod workshop;

pub use breaker::{HealthState, Quarantine};
pub use call::{Call, Used};
pub use contract::VERSION as CONTRACT_VERSION;
pub use controllers::{ControllerDecl, IndexBy, IndexDecl, Mapper, Placement, WatchDecl};
pub use engine::{Policy, Sandbox};
pub use error::{HookError, HookFault, LoadError};
pub use extract::{DataPath, References, Values};
pub use grants::Grants;
pub use health::{Health, HealthReport, HookHealth};
pub use http_hosts::HttpHost;
pub use limits::Limits;
pub use logs::{LogLine, LogSettings, Logs};
pub use manifest::{Hooks, Manifest, TypeDecl};
pub use permission::{Permission, Permissions};
pub use plugin::Plugin;
pub use pool::{PoolSize, address_space, physical_memory};
pub use reconcile_limits::ReconcileLimits;
pub use reconciler::{Outcome, ReconcileError, Reconciler};
pub use reconciler_host::{CacheKey, Failure, ReconcilerHost};
pub use session::{Decision, Mutated, Upgraded};
pub use settings::PluginSettings;
pub use surface::{Port, Surface};
pub use under_way::Cancel;
