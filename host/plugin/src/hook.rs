//! The hooks that a request may meet, by name and by number.

use crate::manifest::Manifest;

/// A hook of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    Mutate,
    Validate,
    AuthorizeRead,
    AuthorizeWrite,
    AuthorizeList,
    Upgrade,
}

impl Hook {
    /// All of them; each stands at the place of its number.
    pub(crate) const ALL: [Self; 6] =
        [Self::Mutate, Self::Validate, Self::AuthorizeRead, Self::AuthorizeWrite, Self::AuthorizeList, Self::Upgrade];

    /// Its name in errors, logs and metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mutate => "mutate",
            Self::Validate => "validate",
            Self::AuthorizeRead => "authorize-read",
            Self::AuthorizeWrite => "authorize-write",
            Self::AuthorizeList => "authorize-list",
            Self::Upgrade => "upgrade",
        }
    }

    /// The hook of that name; none for what is no hook of requests, such as `describe`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.name() == name)
    }

    /// Whether any type of the plugin asks for it.
    pub(crate) fn is_used(self, manifest: &Manifest) -> bool {
        manifest.types.iter().any(|t| match self {
            Self::Mutate => t.hooks.mutate,
            Self::Validate => t.hooks.validate,
            Self::AuthorizeRead => t.hooks.authorize_read,
            Self::AuthorizeWrite => t.hooks.authorize_write,
            Self::AuthorizeList => t.hooks.authorize_list,
            Self::Upgrade => t.schema_version.get() > 1,
        })
    }
}
