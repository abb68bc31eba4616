//! The plugin folder: which files there are, when they change, and whether they have arrived in full.

pub(crate) mod config;
pub mod folder;
pub mod truncation;
pub(crate) mod watch;

pub use folder::digest;
