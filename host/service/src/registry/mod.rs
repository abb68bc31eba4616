//! The table of resource types: their names, their schemas, and the plugins with their hooks.
//!
//! A [`Registry`] never changes. Loading, replacing or removing a plugin makes a new table, and each request keeps the
//! table that it began with; so no request sees half of a change. A look-up is a binary search and allocates nothing; a
//! new table costs one clone of the vector of types.

pub mod builtin;
mod error;
mod missing_plugin;
mod resource_type;
pub(crate) mod schema;
mod table;
mod wire;

pub use error::RegistryError;
pub use missing_plugin::{MissingPlugin, MissingReason};
pub use resource_type::{Owner, ResourceType};
pub use schema::Schema;
pub use table::Registry;
