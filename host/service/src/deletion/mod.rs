//! Deletions: planned by what refers to the resource, carried out as one commit, and followed by the host's controllers.

pub(crate) mod carry_out;
pub(crate) mod deletions;
pub(crate) mod error;
pub(crate) mod plan;
pub(crate) mod reaper;
pub(crate) mod release;
pub(crate) mod removal;
pub(crate) mod shown_plan;
pub(crate) mod tenancy_cleanup;
