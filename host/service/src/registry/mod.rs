//! The table of resource types: which exist, what their data is, and whose hooks judge them.
//!
//! A [`Registry`] never changes. Loading, replacing or removing a plugin makes a new one, and requests keep the one that
//! they began with; so no request ever sees half of a change.

pub mod absent;
pub mod builtin;
pub mod schema;
pub mod table;

pub use absent::{Absent, Why};
pub use schema::{DataFault, Schema};
pub use table::{Owner, Refused, Registry, ResourceType, Rule};
