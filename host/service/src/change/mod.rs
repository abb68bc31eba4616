//! Changes that a type's plugin has a say in, besides the hooks of a write.

mod import;
mod made;
mod move_resource;
mod outside;
mod plan;
pub(crate) mod upgrade_stored;
