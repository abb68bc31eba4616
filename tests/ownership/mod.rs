//! Owners, references and what a deletion does to both: cascades, tombstones, blocked deletions.

mod block_by_plugin;
mod cascade;
mod owner_references;
pub mod references;
mod references_model;
mod tombstones;
