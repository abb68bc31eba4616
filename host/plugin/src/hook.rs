//! The exports that are called again and again, by name and by number: hooks that a request may meet, and the calls of
//! controllers, which are counted and quarantined in the same way.

use crate::manifest::{controllers::Mapper, document::Manifest};

/// A hook of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    Mutate,
    Validate,
    AuthorizeRead,
    AuthorizeWrite,
    AuthorizeList,
    Upgrade,
    Reconcile,
    Map,
    Initialize,
}

impl Hook {
    /// All hooks, each at the index of its number.
    pub(crate) const ALL: [Self; 9] = [
        Self::Mutate,
        Self::Validate,
        Self::AuthorizeRead,
        Self::AuthorizeWrite,
        Self::AuthorizeList,
        Self::Upgrade,
        Self::Reconcile,
        Self::Map,
        Self::Initialize,
    ];

    /// Its name in errors, logs and metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
            Self::AuthorizeRead => "authorize-read",
            Self::AuthorizeWrite => "authorize-write",
            Self::AuthorizeList => "authorize-list",
            Self::Upgrade => "upgrade",
            Self::Reconcile => "reconcile",
            Self::Map => "map",
            Self::Initialize => "initialize",
        }
    }

    /// The hook of that name; none for what is no hook of requests, such as `describe`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.name() == name)
    }

    /// Whether controllers call it, not requests.
    pub(crate) const fn is_of_controllers(self) -> bool {
        matches!(self, Self::Reconcile | Self::Map | Self::Initialize)
    }

    /// Whether any type or controller of the plugin asks for it.
    pub(crate) fn is_used(self, manifest: &Manifest) -> bool {
        let (mut types, mut controllers) = (manifest.types.iter(), manifest.controllers.iter());
        match self {
            Self::Mutate => types.any(|t| t.hooks.mutate),
            Self::Validate => types.any(|t| t.hooks.validate),
            Self::AuthorizeRead => types.any(|t| t.hooks.authorize_read),
            Self::AuthorizeWrite => types.any(|t| t.hooks.authorize_write),
            Self::AuthorizeList => types.any(|t| t.hooks.authorize_list),
            Self::Upgrade => types.any(|t| t.schema_version.get() > 1),
            Self::Reconcile => controllers.next().is_some(),
            Self::Map => controllers.any(|c| c.watches.iter().any(|watch| watch.mapper == Mapper::Map)),
            Self::Initialize => controllers.any(|c| c.initializes),
        }
    }
}
