//! TODO

pub(crate) mod carry_out;
pub(crate) mod plan;
pub(crate) mod reaper;
pub(crate) mod release;
pub(crate) mod removal;
pub(crate) mod tenancy_cleanup;
