//! Changes that a type's plugin has a say in, besides the hooks of a write.

mod changes;
mod import;
mod import_host;
mod import_result;
mod move_resource;
mod plan;
mod upgrade_stored;

pub(crate) use changes::Changes;
pub use upgrade_stored::UpgradeReport;
