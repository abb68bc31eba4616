//! Resources from files: reading them, the order in which they are written, and what a write would change.

pub(crate) mod files;
pub(crate) mod order;
pub(crate) mod plan;
pub(crate) mod report;
