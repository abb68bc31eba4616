//! What the callers of a store and its threads share.

use std::{
    fs::File,
    sync::{Arc, OnceLock},
};

use crate::{
    Batch, Mutation, StoreError,
    engine::{
        commit::{commit_group, commit_thread::Job, queue::Queue},
        files::{closed_at, layout, recovery},
        metrics,
        options::Options,
        read::{publisher::Publisher, scan::Scanner, snapshot::Snapshots},
        tree::table::Table,
    },
};

/// What callers, scans and the commit thread share. Fields are dropped in order: the lock goes last.
pub(crate) struct Shared {
    pub(crate) table: Table,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) queue: Queue<Job>,
    /// Why writes are refused.
    pub(crate) poisoned: OnceLock<String>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) scanner: Arc<Scanner>,
    pub(crate) options: Options,
    /// Keeps other processes out.
    pub(crate) _lock: File,
}

impl Shared {
    /// Refuses writes from here on, and says why. The first reason stays.
    pub(crate) fn poison(&self, error: &StoreError) -> String {
        let why = match error {
            StoreError::Poisoned(why) => why.clone(),
            other => other.to_string(),
        };
        if self.poisoned.set(why.clone()).is_ok() {
            tracing::error!(path = %self.options.path.display(), why, "the store refuses writes from here on");
            metrics::poisoned();
        }
        why
    }

    /// Writes down how far the store had come. Nothing is lost without it; only a loss would not be noticed.
    pub(crate) fn note_the_end(&self) {
        if self.poisoned.get().is_some() {
            return;
        }
        let dir = self.options.path.join(layout::STORE);
        let noted = recovery::meta(&self.table).and_then(|meta| closed_at::set(&dir, meta.last_seq));
        if let Err(error) = noted {
            tracing::warn!(path = %self.options.path.display(), %error, "the store's last commit was not written down");
        }
    }

    /// Why nobody answered.
    pub(crate) fn gone(&self) -> StoreError {
        self.poisoned.get().map_or(StoreError::Closed, |why| StoreError::Poisoned(why.clone()))
    }

    /// Judges what needs no look at the store, on the caller's time.
    pub(crate) fn admit(&self, batch: &Batch) -> Result<(), StoreError> {
        if let Some(why) = self.poisoned.get() {
            return Err(StoreError::Poisoned(why.clone()));
        }
        for mutation in &batch.mutations {
            if let Mutation::Put(resource) | Mutation::Rewrite(resource) = mutation {
                commit_group::complete(resource)?;
            }
        }
        Ok(())
    }
}
