//! Owners, references and what a deletion does to both: cascades, tombstones, blocked deletions.

mod cascade;
mod owner_references;
mod references;
mod references_model;
mod tombstones;
