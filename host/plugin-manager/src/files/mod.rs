//! The plugin folder: its files, their changes, and whether they are complete.

pub(crate) mod config;
pub mod folder;
pub mod truncation;
pub(crate) mod watch;

pub use folder::digest;
