//! The state of a call's commit: whether it has begun, and whether the caller still takes an answer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// The commit of a call; `None` for a call that changes nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommitState(Option<Arc<Flags>>);

#[derive(Debug, Default)]
struct Flags {
    /// A commit is under way, or made.
    started: AtomicBool,
    /// The caller takes no answer any more.
    abandoned: AtomicBool,
}

impl CommitState {
    /// Makes the state of a change.
    pub(super) fn of_change() -> Self {
        Self(Some(Arc::default()))
    }

    pub(super) fn is_started(&self) -> bool {
        self.0.as_ref().is_some_and(|flags| flags.started.load(Ordering::Relaxed))
    }

    /// Notes that a commit begins. Returns false, and notes nothing, if the caller takes no answer any more.
    pub(super) fn start(&self) -> bool {
        let Some(flags) = &self.0 else { return true };
        let is_abandoned = flags.abandoned.load(Ordering::Relaxed);
        flags.started.store(!is_abandoned, Ordering::Relaxed);
        !is_abandoned
    }

    /// Notes that the caller takes no answer any more.
    pub(super) fn abandon(&self) {
        if let Some(flags) = &self.0 {
            flags.abandoned.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that the commit has failed.
    pub(super) fn reset(&self) {
        if let Some(flags) = &self.0 {
            flags.started.store(false, Ordering::Relaxed);
        }
    }
}
