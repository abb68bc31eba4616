//! Changes that a type's plugin has a say in, besides the hooks of a write.

pub(crate) mod changes;
mod import;
mod import_host;
mod import_result;
mod move_resource;
mod plan;
pub(crate) mod upgrade_stored;
