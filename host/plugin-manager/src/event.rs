//! What background work tells the manager's task when it has ended.

use mortise_resource::pb;

/// News from background work.
pub(crate) enum Event {
    /// The last call in a replaced version has ended.
    Drained {
        /// The plugin's name.
        plugin: String,
    },
    /// What was stored in older schema versions is upgraded.
    Migrated(Migrated),
}

/// Types of which everything that is stored is in their schema version.
pub(crate) struct Migrated {
    pub(crate) plugin: String,
    /// The component that upgraded it.
    pub(crate) digest: String,
    pub(crate) types: Vec<pb::Type>,
}
