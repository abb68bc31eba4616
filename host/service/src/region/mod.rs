//! Replicas of resources that other regions own (docs/regions.md): how they are stored, how far they are, and what
//! brings the regions of resources up to date.
//!
//! [`replicas`] alone writes replicas. The rules for this server's own writes are in [`crate::rules::region`].

pub(crate) mod incoming;
mod peers;
pub(crate) mod progress;
pub(crate) mod record;
pub(crate) mod refresh;
pub(crate) mod regions;
pub(crate) mod replicas;
pub(crate) mod replicated_type;
pub(crate) mod restarts;
