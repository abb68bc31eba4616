//! Brings plugins into service and out of it, and keeps `mortise.v1.Plugin` true.
//!
//! [`Manager`] is the handle. A task (`task`) looks at files and settings when they change; what changed is handled
//! next to it, as commands are. What they share is behind one lock, held for a step at a time (`core`); transitions of
//! one plugin wait for each other, those of different plugins do not (`turns`). The two machines, of a plugin and of a
//! file, are drawn in `state`.
//!
//! A component goes through named stages, which the plugin's resource shows: the content settles and is complete
//! ([`files`]), it is one that may be loaded (`trust`), it compiles and describes itself, it is compared with what is stored (`load::canary`), its component is
//! kept (`component_store`), and only then the registry is swapped, in one step (`load::transition`). What fails before
//! that leaves everything as it was, and is said in the resource (`plugin_resources`). The version that was replaced is
//! dropped when the last call in it has ended (`load::drain`).
//!
//! Cost: looking at the folder is two `stat`s for each file; a transition is a handful of durable writes beside its
//! compiling, which happens on threads of its own. Bounds: [`manager::MAX_COMMANDS`] commands are under way at once, and
//! [`Limits::parallel_loads`] loads; at most [`files::folder::MAX_FILES`] files are looked at; messages in
//! resources are cut.

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
mod settings;
mod state;
mod task;
mod trust;
mod turns;
mod work;

pub use commands::pause::Pause;
pub use manager::Manager;
pub use mortise_plugin_host::{LogLine, Logs};
pub use options::{Bundled, ConfigFault, ConfigSource, Limits, Options, StartError};
pub use trust::TrustRules;
