//! Resources and types as the command line names and shows them.

pub mod catalog;
pub(crate) mod ids;
pub(crate) mod label_edits;
pub(crate) mod search;
pub(crate) mod selector;
pub(crate) mod show;
pub(crate) mod tenancy;
pub(crate) mod wait;
