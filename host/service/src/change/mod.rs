//! Changes in which a type's plugin takes part beyond the hooks of a write: plans, moves, imports, and upgrades of
//! stored data.
//!
//! # Contract
//! A plan stores nothing. A move and an import are one commit each, and pass the hooks of a write. Upgrades of stored
//! data change neither versions nor generations.
//!
//! # Cost
//! The hooks of a write, and one more call of the plugin. An upgrade of stored data reads its type once.

mod changes;
mod import;
mod import_host;
mod import_result;
mod move_resource;
mod plan;
mod upgrade_stored;

pub(crate) use changes::Changes;
pub use upgrade_stored::UpgradeReport;
