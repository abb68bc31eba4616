//! What is asked of a load, and what comes of it.

use crate::{files::folder::OfferedSignature, load::stage::Failure, trust::Origin};

/// A component, and who offers it.
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

/// Why a component is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LoadReason {
    /// Its source holds it.
    Source,
    /// A caller sent it, for the plugin of that name; it is put into the folder when it has passed.
    Install(String),
    /// A caller wants it back. `held` is what the source holds instead; empty when that is the component itself.
    Rollback {
        /// SHA-256.
        held: String,
    },
    /// Something around it changed: its settings, or it is switched on.
    Reload,
}

/// What came of a load that was not refused.
pub(crate) struct Loaded {
    /// The plugin's name.
    pub(crate) name: String,
    pub(crate) change: LoadEffect,
}

/// What a load changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadEffect {
    /// The component serves from now on.
    Serves,
    /// It served already, or its plugin is switched off.
    Nothing,
    /// Nothing: its source holds something else by now.
    Superseded,
}

/// Why a load was refused, and whose fault it is as far as it is known.
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
