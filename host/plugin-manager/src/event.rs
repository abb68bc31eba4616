//! Events of background work for the manager's task.

use mortise_resource::pb;

/// The end of background work.
pub(crate) enum Event {
    /// The last call in a replaced version has ended.
    Drained {
        /// The plugin's name.
        plugin: String,
    },
    /// All stored resources of some types are upgraded from older schema versions.
    Migrated(Migrated),
}

/// Types with all stored resources in their schema version.
pub(crate) struct Migrated {
    pub(crate) plugin: String,
    /// The component that upgraded them.
    pub(crate) digest: String,
    pub(crate) types: Vec<pb::Type>,
}
