//! Room on the disk: what is taken ahead for the tree, and what is refused while the disk has none.
//!
//! Sled keeps the first fault of its file for ever, and refuses even reads then. So it must never come upon a full
//! disk: each batch of a checkpoint waits until [`BATCH`] bytes behind the end of sled's file are allocated. As many as
//! [`reserve_bytes`](crate::engine::options::Options::reserve_bytes) are, as long as the disk has them. When it has
//! not, the store is *short*: what deletes is taken still, and so is what gets no larger; all else is refused, since
//! what is left of the reserve is for these. When even a batch has no room, a checkpoint waits, and the write-ahead log
//! takes deletions until it has no room either.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use crate::{StoreError, engine::files::reserve::Reserve};

/// What one batch of a checkpoint may make sled write, bytes: a page for each of its edits, and as much again for the
/// pages that sled moves meanwhile.
const BATCH: u64 = 4 << 20;
/// How often a disk without room is asked again.
pub(crate) const RETRY: Duration = Duration::from_millis(100);

/// Room for the tree.
pub(crate) struct Room {
    tree: Reserve,
    bytes: u64,
    shortage: Mutex<Option<Shortage>>,
    /// Whether a checkpoint waits for room.
    waiting: AtomicBool,
    /// Whether none is to wait.
    closing: AtomicBool,
}

/// A disk that is full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shortage {
    path: PathBuf,
    missing: u64,
}

impl Shortage {
    /// What a write is answered.
    pub(crate) fn error(&self) -> StoreError {
        StoreError::Full { path: self.path.clone(), missing: self.missing }
    }

    /// Of an error that says so.
    pub(crate) fn of(error: &StoreError) -> Option<Self> {
        match error {
            StoreError::Full { path, missing } => Some(Self { path: path.clone(), missing: *missing }),
            _ => None,
        }
    }

    /// How much more the disk would have to have free, bytes.
    pub(crate) fn missing(&self) -> u64 {
        self.missing
    }
}

impl Room {
    /// For the tree whose file is `tree`, with so many bytes ahead.
    pub(crate) fn new(tree: Reserve, bytes: u64) -> Self {
        Self {
            tree,
            bytes,
            shortage: Mutex::new(None),
            waiting: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        }
    }

    /// Takes what is to be ahead of the tree.
    ///
    /// # Errors
    /// [`StoreError::Full`].
    pub(crate) fn take(&self) -> Result<(), StoreError> {
        self.tree.take(self.bytes)
    }

    /// What is missing.
    pub(crate) fn shortage(&self) -> Option<Shortage> {
        self.shortage.lock().clone()
    }

    /// Notes what is missing.
    pub(crate) fn note(&self, shortage: Option<Shortage>) {
        *self.shortage.lock() = shortage;
    }

    /// Makes sure that sled may write one batch.
    ///
    /// # Errors
    /// [`StoreError::Full`].
    pub(crate) fn for_batch(&self) -> Result<(), StoreError> {
        let Err(error) = self.take() else { return Ok(()) };
        let Some(shortage) = Shortage::of(&error) else { return Err(error) };
        self.note(Some(shortage));
        if self.tree.taken()? >= BATCH { Ok(()) } else { Err(error) }
    }

    /// As [`Room::for_batch`], and waits for it until the store is closed.
    ///
    /// # Errors
    /// [`StoreError::Full`] when it was closed first.
    pub(crate) fn wait_for_batch(&self) -> Result<(), StoreError> {
        loop {
            let result = self.for_batch();
            let full = matches!(result, Err(StoreError::Full { .. }));
            self.waiting.store(full, Ordering::Release);
            if !full || self.closing.load(Ordering::Acquire) {
                return result;
            }
            thread::park_timeout(RETRY);
        }
    }

    /// Whether a checkpoint waits for room.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire)
    }

    /// From here on no checkpoint waits.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }
}
