//! Brings plugins into service and out of it, and keeps `mortise.v1.Plugin` true.
//!
//! One task does everything, one transition after another, so that no two interfere: a file that changed, a call of
//! [`Manager`], a changed setting. A transition goes through named stages ([`Stage`]), which the plugin's resource shows:
//! the content settles and is whole ([`files`], [`whole`]), it compiles and describes itself, it is compared with what is
//! stored ([`canary`]), its component is kept ([`vault`]), and only then the registry is swapped, in one step. Whatever
//! fails before that leaves everything as it was, and says so in the resource ([`book`]). What was replaced is dropped
//! when the last call in it has ended ([`drain`]).
//!
//! Cost: looking at the folder is one `stat` for each file; a transition is a handful of durable writes beside its
//! compiling, which happens on threads of its own. Bounds: commands wait in a queue of [`manager::QUEUE`]; at most
//! [`files::MAX_FILES`] files are looked at; messages in resources are cut.

pub mod book;
pub mod canary;
pub mod command;
pub mod controllers;
pub mod drain;
pub mod files;
mod keeper;
pub mod manager;
pub mod migrate;
pub mod offer;
mod orders;
mod pages;
mod settings;
pub mod stage;
mod start;
mod tidy;
pub mod vault;
mod watch;
pub mod whole;

pub use command::Still;
pub use manager::{Bundled, ConfigFault, ConfigSource, Manager, Options, StartError};
pub use mortise_plugin_host::{LogLine, Logs};
pub use stage::{Failure, Stage};
