//! Brings plugins into service and out of it, and keeps `mortise.v1.Plugin` true.
//!
//! One task does everything, one transition after another, so that no two interfere: a file that changed, a call of
//! [`Manager`], a changed setting. A transition goes through named stages, which the plugin's resource shows: the content
//! settles and is complete ([`files`]), it compiles and describes itself, it is compared with what is stored
//! (`load::canary`), its component is kept (`component_store`), and only then the registry is swapped, in one step.
//! Whatever fails before that leaves everything as it was, and says so in the resource (`resources`). The version that was
//! replaced is dropped when the last call in it has ended (`load::drain`).
//!
//! Cost: looking at the folder is one `stat` for each file; a transition is a handful of durable writes beside its
//! compiling, which happens on threads of its own. Bounds: commands wait in a queue of [`manager::QUEUE`]; at most
//! [`files::folder::MAX_FILES`] files are looked at; messages in resources are cut.

mod commands;
mod component_store;
pub mod controllers;
pub mod files;
mod gc;
mod load;
pub mod manager;
mod resources;
mod settings;
mod task;

pub use commands::message::Pause;
pub use manager::{Bundled, ConfigFault, ConfigSource, Manager, Options, StartError};
pub use mortise_plugin_host::{LogLine, Logs};
