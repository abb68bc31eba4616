//! State that the callers of a store and its threads share.

use std::{
    fs::File,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    Batch, Health, Mutation, StoreError,
    check::Problem,
    engine::{
        commit::{
            commit_group,
            job::Job,
            queue::Queue,
            room::{DiskBudget, Shortage},
        },
        files::{closed_at, layout, open_files::OpenFiles, recovery, store_id::StoreId},
        metrics,
        options::Options,
        read::{publisher::Publisher, scan::Scanner, snapshot::Snapshots},
        tree::{checkpoint_position::LogEnd, panics::catch_panic, table::Table},
    },
};

/// Number of problems that a message lists.
const SHOWN_PROBLEMS: usize = 5;

/// Shared state of callers, scans and the commit thread. Fields are dropped in order: the lock goes last.
pub(crate) struct Shared {
    pub(crate) table: Table,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) queue: Queue<Job>,
    /// Reason why writes are refused.
    pub(crate) poisoned: OnceLock<String>,
    /// Faults of the store, for callers to follow.
    pub(crate) health: watch::Sender<Health>,
    pub(crate) room: DiskBudget,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) scanner: Arc<Scanner>,
    /// End of the log, for the mark of the next checkpoint.
    pub(crate) log_end: Mutex<LogEnd>,
    pub(crate) options: Options,
    pub(crate) id: StoreId,
    /// Names of the open files.
    pub(crate) files: OpenFiles,
    /// Lock against other processes.
    pub(crate) _lock: File,
}

impl Shared {
    /// Refuses all further writes; returns the reason. The first reason stays.
    pub(crate) fn poison(&self, error: &StoreError) -> String {
        let why = match error {
            StoreError::Poisoned(why) => why.clone(),
            other => other.to_string(),
        };
        if self.poisoned.set(why.clone()).is_ok() {
            tracing::error!(path = %self.options.path.display(), why, "the store refuses writes from here on");
            metrics::poisoned();
            self.health.send_modify(|health| health.poisoned = Some(why.clone()));
        }
        why
    }

    /// Compares the names of the open files with the files; refuses further writes after a difference.
    pub(crate) fn check_files(&self) {
        if self.poisoned.get().is_none()
            && let Err(error) = self.files.check()
        {
            self.poison(&error);
        }
    }

    /// Does the work of a thread. After a panic the store refuses writes: without the thread it would only look sound.
    pub(crate) fn guard(&self, thread: &'static str, work: impl FnOnce()) {
        let worked = catch_panic(thread, || {
            work();
            Ok(())
        });
        if let Err(panic) = worked {
            self.note_thread_failed(thread, &panic);
        }
    }

    /// Notes the panic of a thread, and refuses writes.
    pub(crate) fn note_thread_failed(&self, thread: &'static str, panic: &StoreError) {
        metrics::thread_failed(thread);
        self.poison(panic);
    }

    /// Notes whether the disk has space, and logs a change.
    pub(crate) fn note_shortage(&self, shortage: Option<Shortage>) {
        let path = self.options.path.display();
        let now = shortage.as_ref().map(|shortage| shortage.error().to_string());
        metrics::missing(shortage.as_ref().map_or(0, Shortage::missing));
        self.room.note(shortage);
        // By the published health: the checkpoint thread may have noted the shortage first, without logging it.
        let was_full = self.health.borrow().full.is_some();
        match (was_full, &now) {
            (false, Some(why)) => {
                tracing::error!(%path, why, "the store refuses writes that need space; free some")
            }
            (true, None) => tracing::info!(%path, "the disk has space again; writes continue"),
            _ => {}
        }
        self.health.send_if_modified(|health| std::mem::replace(&mut health.full, now.clone()) != now);
    }

    /// Notes the last commit in a file. Without the file no data is lost, but the next opening would not notice a loss.
    pub(crate) fn note_last_commit(&self) {
        self.check_files();
        if self.poisoned.get().is_some() {
            return;
        }
        let dir = self.options.path.join(layout::STORE);
        let noted = recovery::meta(&self.table).and_then(|meta| closed_at::set(&dir, meta.last_seq));
        if let Err(error) = noted {
            tracing::warn!(path = %self.options.path.display(), %error, "the store's last commit was not noted");
        }
    }

    /// Whether damage was found.
    pub(crate) fn is_damaged(&self) -> bool {
        self.health.borrow().damaged.is_some()
    }

    /// Notes damage of the store, and logs it.
    pub(crate) fn note_damage(&self, problems: &[Problem]) {
        let mut shown: Vec<_> = problems.iter().take(SHOWN_PROBLEMS).map(ToString::to_string).collect();
        if problems.len() > SHOWN_PROBLEMS {
            shown.push(format!("and {} more", problems.len() - SHOWN_PROBLEMS));
        }
        let why = shown.join("; ");
        if !why.is_empty() && self.health.borrow().damaged.as_ref() != Some(&why) {
            tracing::error!(path = %self.options.path.display(), why, "the store is damaged: some acknowledged data is missing");
            metrics::damaged();
            self.health.send_modify(|health| health.damaged = Some(why));
        }
    }

    /// Returns the error for a caller without an answer.
    pub(crate) fn gone(&self) -> StoreError {
        self.poisoned.get().map_or(StoreError::Closed, |why| StoreError::Poisoned(why.clone()))
    }

    /// Checks a batch as far as possible without the store, on the caller's time.
    pub(crate) fn admit(&self, batch: &Batch) -> Result<(), StoreError> {
        if self.options.read_only {
            return Err(StoreError::ReadOnly);
        }
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
