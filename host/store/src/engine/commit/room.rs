//! Disk space: the reserve for the tree, and the writes to refuse while the disk is full.
//!
//! After one error of its file sled fails for ever, even for reads. So it must never meet a full disk: each batch of a
//! checkpoint waits until [`CHECKPOINT_BATCH_BYTES`] bytes behind the end of sled's file are allocated. Normally,
//! [`reserve_bytes`](crate::engine::options::Options::reserve_bytes) are allocated. When the disk cannot provide them,
//! the store is *short*: it accepts deletes and mutations that do not grow, which use the rest of the reserve, and
//! refuses all else. When even a batch has no space, the checkpoint waits, and the write-ahead log takes deletions
//! until it has no space either.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use crate::{StoreError, engine::files::reserve::Reserve};

/// Most bytes that sled may write for one batch of a checkpoint: a page for each edit, and as much again for pages that
/// sled moves meanwhile.
const CHECKPOINT_BATCH_BYTES: u64 = 4 << 20;
/// Pause between two attempts to allocate space on a full disk.
pub(crate) const SPACE_RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Disk space of the tree.
pub(crate) struct DiskBudget {
    tree: Reserve,
    /// Bytes of the whole reserve.
    bytes: u64,
    shortage: Mutex<Option<Shortage>>,
    /// Whether a checkpoint waits for space.
    waiting: AtomicBool,
    /// Whether checkpoints must no longer wait.
    closing: AtomicBool,
}

/// State of a full disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shortage {
    path: PathBuf,
    missing: u64,
}

impl Shortage {
    /// Returns the error for a refused write.
    pub(crate) fn error(&self) -> StoreError {
        StoreError::Full { path: self.path.clone(), missing: self.missing }
    }

    /// Takes the shortage out of an error; `None` for other errors.
    pub(crate) fn of(error: &StoreError) -> Option<Self> {
        match error {
            StoreError::Full { path, missing } => Some(Self { path: path.clone(), missing: *missing }),
            _ => None,
        }
    }

    /// Returns the bytes that must become free.
    pub(crate) fn missing(&self) -> u64 {
        self.missing
    }
}

impl DiskBudget {
    /// Makes the state for the tree in the file of `tree`, with `bytes` in reserve.
    pub(crate) fn new(tree: Reserve, bytes: u64) -> Self {
        Self {
            tree,
            bytes,
            shortage: Mutex::new(None),
            waiting: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        }
    }

    /// Allocates the reserve of the tree.
    ///
    /// # Errors
    /// [`StoreError::Full`].
    pub(crate) fn take(&self) -> Result<(), StoreError> {
        self.tree.take(self.bytes)
    }

    /// Returns the present shortage.
    pub(crate) fn shortage(&self) -> Option<Shortage> {
        self.shortage.lock().clone()
    }

    /// Sets the present shortage.
    pub(crate) fn note(&self, shortage: Option<Shortage>) {
        *self.shortage.lock() = shortage;
    }

    /// Ensures that sled can write one batch, and notes a shortage.
    ///
    /// # Errors
    /// [`StoreError::Full`].
    pub(crate) fn ensure_batch(&self) -> Result<(), StoreError> {
        let Err(error) = self.take() else { return Ok(()) };
        let Some(shortage) = Shortage::of(&error) else { return Err(error) };
        self.note(Some(shortage));
        if self.tree.taken()? >= CHECKPOINT_BATCH_BYTES { Ok(()) } else { Err(error) }
    }

    /// Waits until sled can write one batch, or the store is closed.
    ///
    /// # Errors
    /// [`StoreError::Full`] when the store was closed first.
    pub(crate) fn wait_for_batch(&self) -> Result<(), StoreError> {
        loop {
            let result = self.ensure_batch();
            let full = matches!(result, Err(StoreError::Full { .. }));
            self.waiting.store(full, Ordering::Release);
            if !full || self.closing.load(Ordering::Acquire) {
                return result;
            }
            thread::park_timeout(SPACE_RETRY_PAUSE);
        }
    }

    /// Whether a checkpoint waits for room.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// Ends the waiting of checkpoints.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }
}
