//! Deletions: planned along the references to the resource, carried out as one commit, and finished by the host's
//! controllers.
//!
//! # Contract
//! A deletion leaves a tombstone in its own commit. A reference that must not dangle never loses its target. All
//! pending work is in the store, so a crash loses none. The controllers are the reaper (children) and the controller of
//! owner references, together the garbage collector, and the clean-up of tenancy units.
//!
//! | file | work |
//! |---|---|
//! | `plan`, `overlay`, `deletions` | the effect of a deletion along the references, over the stored or a supposed state |
//! | `carry_out`, `removal` | a plan as one commit; deletions without a plan |
//! | `reaper`, `release` | tombstones: the children; deferred references, and the end of marked resources |
//! | `owners` | owner references (`meta.owner_references`) |
//! | `tenancy_cleanup` | the content of marked partitions and namespaces |
//! | `outlook`, `shown_plan` | the whole effect, foreseen to its end; as an answer for a caller |
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
mod second_passes;
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
