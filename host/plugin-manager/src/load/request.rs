//! The request of a load, and its result.

use crate::{files::folder::OfferedSignature, load::stage::Failure, trust::Origin};

/// A component and its origin.
pub(crate) struct LoadRequest {
    /// A file of the folder, or [`crate::state::BUNDLED`].
    pub(crate) source: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) digest: String,
    pub(crate) origin: Origin,
    pub(crate) signature: OfferedSignature,
    pub(crate) reason: LoadReason,
    /// The plugin that came from this source before: its record shows every stage, and the component must be it.
    pub(crate) plugin_before: Option<String>,
}

/// Reason of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoadReason {
    /// The source holds the component.
    Source,
    /// A caller sent it, for the plugin of that name; after its checks it is put into the folder.
    Install(String),
    /// A caller rolls back to it. `held` is the source's content; `None` if that is the component itself.
    Rollback {
        /// SHA-256.
        held: Option<String>,
    },
    /// Its settings changed, or it is enabled.
    Reload,
}

/// Result of a load that was not rejected.
pub(crate) struct Loaded {
    /// The plugin's name.
    pub(crate) name: String,
    pub(crate) change: LoadEffect,
}

/// Effect of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadEffect {
    /// The component serves from now on.
    Serves,
    /// It served already, or its plugin is disabled.
    Nothing,
    /// The load had no effect: its source has other content by now.
    Superseded,
}

/// Reason of a rejected load, and the component's name if it is known.
pub(crate) struct LoadRefusal {
    pub(crate) failure: Failure,
    /// The component's own name.
    pub(crate) name: Option<String>,
}

impl From<Failure> for LoadRefusal {
    fn from(failure: Failure) -> Self {
        Self { failure, name: None }
    }
}
