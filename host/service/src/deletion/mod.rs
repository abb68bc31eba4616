//! Deletions: planned along the references to the resource, carried out as one commit, and finished by the host's
//! controllers.
//!
//! # Contract
//! A deletion leaves a tombstone in its own commit. A reference that must not dangle never loses its target. All
//! pending work is in the store, so a crash loses none. The controllers are the reaper (children), the controller of
//! owner references, and the clean-up of tenancy units.
//!
//! # Cost and limits
//! A resource without possible referrers needs no plan. A plan reads the index of references for each resource that it
//! reaches; [`plan`] has the limits.

mod carry_out;
mod deletions;
mod error;
mod outlook;
mod overlay;
mod owners;
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

#[cfg(test)]
mod changeset_tests;
#[cfg(test)]
mod outlook_tests;
#[cfg(test)]
mod owners_tests;
#[cfg(test)]
mod test_graph;
