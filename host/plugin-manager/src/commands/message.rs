//! What the manager is asked to do from outside.

use std::path::PathBuf;

use mortise_resource::{Error, data, pb};
use tokio::sync::oneshot;

use crate::{load::drain::Drained, load::migration::Migrated};

/// Where an answer goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// As long as it is there, the manager makes no transition: files, resources and what serves agree.
#[derive(Debug)]
pub struct Pause {
    /// The plugin folder.
    pub plugin_dir: PathBuf,
    /// Where components are kept: `<dir>/<plugin>/<sha256>.wasm`.
    pub component_dir: PathBuf,
    /// The configuration's file, if there is one.
    pub config: Option<PathBuf>,
    /// Dropped with it.
    pub(crate) _until: oneshot::Sender<()>,
}

/// One order. Calls wait for their answers; the rest is news.
pub(crate) enum Command {
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
    /// Stand still until the answer is dropped.
    Pause(Reply<Pause>),
    /// A replaced version is gone, or late.
    Drained(Drained),
    /// What was stored in older schema versions is upgraded.
    Migrated(Migrated),
}
