//! Modes of a write: each RPC that writes has its own.

use mortise_resource::authorizer::Verb;

/// The mode of a write.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteMode {
    /// Verb for the caller's rules.
    pub(super) verb: Verb,
    /// Leaves an unchanged resource as it is: no new version, no event.
    pub(super) keep_unchanged: bool,
    /// Refuses an existing resource with `Aborted`, instead of replacing it.
    pub(super) creates: bool,
    /// The protection from deletion that a controller of the type's plugin sets or ends.
    pub(super) blocks: Option<bool>,
    /// Stores nothing: the write ends before its commit, without regard to quotas and the disk.
    pub(super) validates_only: bool,
    /// Follows a read of the newest state in the same call.
    pub(super) has_read: bool,
}

impl WriteMode {
    /// Makes the mode of a write that always makes a new version, as Consul's does.
    pub(super) const fn new(verb: Verb) -> Self {
        Self { verb, keep_unchanged: false, creates: false, blocks: None, validates_only: false, has_read: false }
    }
}
