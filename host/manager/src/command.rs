//! What the manager is asked to do from outside.

use mortise_resource::{Error, data, pb};
use tokio::sync::oneshot;

use crate::{drain::Drained, migrate::Migrated};

/// Where an answer goes.
pub type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// One order. Calls wait for their answers; the rest is news.
pub enum Command {
    /// Serve this content, and put it into the folder.
    Install {
        /// The plugin's name.
        name: String,
        /// The component, complete; its digest was compared.
        bytes: Vec<u8>,
        /// The resource, and whether nothing had to change.
        reply: Reply<(pb::Resource, bool)>,
    },
    /// Take the plugin's file out of the folder.
    Remove(String, Reply<Option<pb::Resource>>),
    /// Go back to the component before.
    Rollback(String, Reply<pb::Resource>),
    /// Lift quarantines.
    Reset(String, Reply<pb::Resource>),
    /// Switch off.
    Disable(String, Reply<pb::Resource>),
    /// Switch on.
    Enable(String, Reply<pb::Resource>),
    /// Tell everything.
    Inspect(String, Reply<data::InspectResponse>),
    /// A replaced version is gone, or late.
    Drained(Drained),
    /// What was stored in older schema versions is upgraded.
    Migrated(Migrated),
}
