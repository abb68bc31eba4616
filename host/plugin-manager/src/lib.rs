//! Brings plugins into service and out of it, and keeps the resources of type `mortise.v1.Plugin` up to date.
//!
//! [`Manager`] is the handle. The manager's task (`task`) examines files and settings when they change. Changes and
//! commands run in tasks of their own (`work`, `commands`). Their common state is behind one lock, held for a step at a
//! time (`core`); transitions of one plugin wait for each other, those of different plugins do not (`turns`). `state`
//! has drawings of the two state machines, of a plugin and of a file.
//!
//! The *source* of a plugin is a file of the folder, or `bundled`. A component goes through named stages, which the
//! plugin's resource shows: the content settles and is complete ([`files`]), the rules allow to load it (`trust`), it
//! compiles and describes itself, it is compared with stored resources (`load::canary`), its component is kept
//! (`component_store`), and only then the registry is swapped, in one step (`load::transition`). A failure before that
//! changes nothing, and is shown in the resource (`plugin_resources`). The replaced version is dropped when its last
//! call has ended (`load::drain`).
//!
//! # Cost and limits
//! A scan of the folder takes two `stat`s for each file; a transition takes a handful of durable writes beside its
//! compiling, which has its own threads. [`manager::MAX_COMMANDS`] commands and [`Limits::parallel_loads`] loads run at
//! once; [`files::folder::MAX_FILES`] files; messages in resources are cut at 4 KiB.

mod commands;
mod component_store;
pub mod controllers;
mod core;
mod event;
mod failpoint;
pub mod files;
mod gc;
mod load;
pub mod manager;
mod options;
mod plugin_resources;
mod retry;
mod settings;
pub mod shared;
mod state;
mod task;
mod trust;
mod turns;
mod work;

pub use commands::pause::Pause;
pub use manager::Manager;
pub use mortise_plugin_host::{LogLevel, LogLine, Logs};
pub use options::{Bundled, ConfigFault, ConfigSource, Limits, Options, StartError};
pub use trust::TrustRules;
