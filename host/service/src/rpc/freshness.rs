//! Newness of the state that the attempts of a write see, on a server that shares its store with others.
//!
//! Such a server reads a copy, which may lack the newest writes of other servers. To bring it up to date takes a
//! question to other machines, which lasts as long as a commit. A commit compares all that its write depends on, so a
//! write that comes to its commit needs no such question: an old state costs it another attempt. An attempt that ends
//! before its commit (a refusal, or nothing to change) counts only if the copy was brought up to date within the call.
//! So does a commit that is refused for a uid, which the attempt may not have seen.
//!
//! The question comes first for what a commit does not compare in full: types of the host, whose rules look at tokens
//! and policies; servers with a region; writes that store nothing. It also comes first while the shared store is away,
//! so that such a write fails without having been proposed.

use std::sync::atomic::{AtomicBool, Ordering};

use mortise_resource::Code;
use mortise_store::StoreError;

use super::write_mode::WriteMode;
use crate::{
    core::Core,
    registry::{Owner, ResourceType},
};

/// Knowledge of a write about the state that it sees.
pub(super) struct Freshness {
    /// The copy has everything that was acknowledged before the call.
    is_new: bool,
    /// The last attempt came to its commit.
    commits: AtomicBool,
}

impl Freshness {
    /// Begins a write; asks the other machines first where a commit would not be enough.
    ///
    /// # Errors
    /// The shared store cannot be reached.
    pub(super) async fn begin(core: &Core, kind: &ResourceType, mode: WriteMode) -> Result<Self, StoreError> {
        let is_new = mode.has_read || !core.backend.reads_may_lag();
        let mut freshness = Self { is_new, commits: AtomicBool::new(false) };
        let comes_first = mode.validates_only
            || matches!(kind.owner, Owner::Host)
            || core.region().is_some()
            || core.backend.health().borrow().away.is_some();
        if !is_new && comes_first {
            freshness.renew(core).await?;
        }
        Ok(freshness)
    }

    /// Returns false if the state may be older than the call.
    pub(super) const fn is_new(&self) -> bool {
        self.is_new
    }

    /// Notes that the attempt comes to its commit.
    pub(super) fn note_commit(&self) {
        self.commits.store(true, Ordering::Relaxed);
    }

    /// Notes that the commit was refused. A resource that the attempt did not see has another uid, so a refusal for its
    /// uid decides nothing.
    pub(super) fn note_refusal(&self, error: &StoreError) {
        if let StoreError::WrongUid = error {
            self.commits.store(false, Ordering::Relaxed);
        }
    }

    /// Returns true if the attempt that has just ended decided nothing: it saw a state that may be old, and came to no
    /// commit. A fault of a plugin, of a limit or of the store is one in any state.
    pub(super) fn is_in_doubt(&self, failure: Option<Code>) -> bool {
        let has_committed = self.commits.swap(false, Ordering::Relaxed);
        let faults = [Code::Internal, Code::Unavailable, Code::DeadlineExceeded, Code::ResourceExhausted];
        !self.is_new && !has_committed && failure.is_none_or(|code| !faults.contains(&code))
    }

    /// Brings the copy up to date.
    ///
    /// # Errors
    /// The shared store cannot be reached.
    pub(super) async fn renew(&mut self, core: &Core) -> Result<(), StoreError> {
        core.backend.catch_up().await?;
        self.is_new = true;
        Ok(())
    }
}
