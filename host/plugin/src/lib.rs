//! Loading, limits, pooling and calls of WebAssembly components.
//!
//! A [`Sandbox`] is an engine with its ticker, its pool of instances and its compile cache. It turns a component's
//! bytes into a [`Plugin`]: imports checked, manifest read and checked, code compiled. A [`Call`] has one fresh
//! instance of a plugin for one request; its hooks are called one after the other, and then the instance is dropped. A
//! [`Reconciler`] calls a plugin's controllers, in warm instances of a second engine; a [`ReconcilerHost`] answers
//! their host calls.
//!
//! This crate knows the contract (`wit/`) and the manifest. It knows neither storage nor gRPC: the service decides when
//! a hook is called, and what its answer means to a caller.
//!
//! Where to look: `load` checks and compiles a component, `manifest` checks its description of itself, `call` calls its
//! exports, `host` answers its imports within its `grants`, `engine` has the engine, the pool and the threads, `health`
//! counts faults, `reconciler` calls controllers, `probes` performs the checks that they ask for.
//!
//! # Contract
//! A fault of a guest ends its call alone. The [`HookError`] has the plugin, the hook and the limit, and whether the
//! fault counts towards the quarantine of that hook.
//!
//! # Cost and limits
//! docs/performance.md has the cost of a call by its parts. [`Limits`] bound hooks, [`ReconcileLimits`] controllers.

mod bindings;
mod call;
mod engine;
mod error;
mod failure;
mod function;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod grants;
mod health;
mod hook;
mod host;
mod limits;
mod load;
mod manifest;
mod opaque;
mod plugin;
mod probes;
mod reconcile_limits;
mod reconciler;
mod request;
mod sandbox;
pub mod units;

pub use call::answer::{Decision, FunctionFault, MutateReply, NewResourceReply, PlanReply, UpgradeReply, Usage};
pub use call::hook_slots::CallerClass;
pub use engine::{
    low_priority::LowPriorityThreads,
    pool::{PoolSize, address_space, physical_memory},
};
pub use error::{ExceededLimit, HookError, HookFault, LoadError};
pub use failure::Failure;
pub use function::FunctionError;
pub use grants::{
    Grants,
    granted_host::GrantedHost,
    http_hosts::HttpHost,
    requests::{Grant, GrantRequest, GrantRequests},
    tcp_hosts::TcpHost,
};
pub use health::{
    breaker::{CallerId, HealthState, Quarantine},
    log_level::{LogLevel, LogThreshold, threshold},
    logs::{LogLine, LogSettings, Logs},
    plugin_health::{Health, HealthReport, HookHealth},
    processor_time::processor_time,
};
pub use host::{
    call_context::Cancel,
    lookup_host::LookupHost,
    private_bytes::MAX_PRIVATE_BYTES,
    reconciler_host::{CacheKey, EachResource, ReconcilerHost},
};
pub use limits::Limits;
pub use load::{
    brought_code::{CodeFile, CodeFolder, compile_for},
    compiler_process::{CompilerProgram, launch as launch_compiler},
    contract::VERSION as CONTRACT_VERSION,
    interfaces::{Interface, Interfaces},
    settings::PluginSettings,
};
pub use manifest::{
    controllers::{self, ControllerDecl, IndexBy, IndexDecl, Mapper, Placement, WatchDecl},
    document::{Hooks, Manifest, QueryDecl, RegionDecl, TypeDecl},
    error::ManifestError,
    field_path::{DataPath, DataPathError, References, Values},
    functions::{FunctionCallError, FunctionDecl},
    permission::{Permission, Permissions},
    references::{DataReference, DataReferenceError, MAX_REFERENCES, ReferenceDecls},
};
pub use mortise_keys::age::{Identities, IdentityError};
pub use plugin::Plugin;
pub use probes::ProbeWriter;
pub use reconcile_limits::ReconcileLimits;
pub use reconciler::{Outcome, ReconcileError, Reconciler};
pub use request::Call;
pub use sandbox::{Sandbox, SandboxOptions};
