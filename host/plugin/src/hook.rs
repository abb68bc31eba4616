//! Exports that are called repeatedly, by name and by number: hooks of requests, functions, and calls of controllers,
//! which are counted and quarantined in the same way.

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
    Plan,
    Move,
    Import,
    Function,
}

impl Hook {
    /// All hooks, each at the index of its number.
    pub(crate) const ALL: [Self; 13] = [
        Self::Mutate,
        Self::Validate,
        Self::AuthorizeRead,
        Self::AuthorizeWrite,
        Self::AuthorizeList,
        Self::Upgrade,
        Self::Reconcile,
        Self::Map,
        Self::Initialize,
        Self::Plan,
        Self::Move,
        Self::Import,
        Self::Function,
    ];

    /// Name in errors, logs and metrics.
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
            Self::Plan => "plan",
            Self::Move => "move",
            Self::Import => "import",
            Self::Function => "function",
        }
    }

    /// Hook of that name; `None` for other exports, such as `describe`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.name() == name)
    }

    /// Whether the call runs in the engine for controllers: calls of controllers, and imports, which reach outside as
    /// they do.
    pub(crate) const fn is_of_controllers(self) -> bool {
        matches!(self, Self::Reconcile | Self::Map | Self::Initialize | Self::Import)
    }

    /// Whether the hook may search: its answer is never cached, and concerns one write.
    pub(crate) const fn may_search(self) -> bool {
        matches!(self, Self::Mutate | Self::Validate | Self::Plan)
    }

    /// Whether an instance may serve the hook for several requests. Authorize hooks decide about callers, and always have
    /// a fresh instance; upgrades and moves are seldom.
    pub(crate) const fn may_reuse(self) -> bool {
        matches!(self, Self::Mutate | Self::Validate | Self::Plan | Self::Function)
    }

    /// Whether any type, controller or function of the plugin uses the hook.
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
            Self::Plan => types.any(|t| t.hooks.plan),
            Self::Move => types.any(|t| !t.moved_from.is_empty()),
            Self::Import => types.any(|t| t.hooks.import),
            Self::Function => !manifest.functions.is_empty(),
        }
    }
}

/// A value for each hook.
pub(crate) struct PerHook<T>([T; Hook::ALL.len()]);

impl<T> PerHook<T> {
    pub(crate) fn new(make: impl FnMut(Hook) -> T) -> Self {
        Self(Hook::ALL.map(make))
    }

    pub(crate) fn get(&self, hook: Hook) -> &T {
        let [mutate, validate, read, write, list, upgrade, reconcile, map, initialize, plan, moves, import, function] =
            &self.0;
        match hook {
            Hook::Mutate => mutate,
            Hook::Validate => validate,
            Hook::AuthorizeRead => read,
            Hook::AuthorizeWrite => write,
            Hook::AuthorizeList => list,
            Hook::Upgrade => upgrade,
            Hook::Reconcile => reconcile,
            Hook::Map => map,
            Hook::Initialize => initialize,
            Hook::Plan => plan,
            Hook::Move => moves,
            Hook::Import => import,
            Hook::Function => function,
        }
    }
}
