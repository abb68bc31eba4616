//! Deletions: planned by what refers to the resource, carried out as one commit, and followed by the host's controllers.

mod carry_out;
mod deletions;
mod error;
mod plan;
mod reaper;
mod release;
mod removal;
mod shown_plan;
mod tenancy_cleanup;

pub(crate) use deletions::Deletions;
pub use error::RemovalError;
pub(crate) use plan::{PlannedAction, Purpose};
pub(crate) use shown_plan::ShownPlan;
pub(crate) use tenancy_cleanup::TenancyCleanup;
