//! Checkpoints: copying a frozen memtable to the tree, on a thread of their own, so that its generation of the
//! write-ahead log may be written over.
//!
//! The thread writes with [`tree::checkpoint`](crate::engine::tree::checkpoint), and is the tree's only writer while a
//! store is open.
//!
//! An interrupted checkpoint has copied some of the edits. That does no harm: the log has all of them, and copying them
//! again gives the same tree. Edits of one key were combined before, so a resource that changed a hundred times, or an
//! event that was added and trimmed, costs the tree little or nothing.

use std::{
    fs::File,
    ops::Bound,
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use sled::IVec;

use crate::{
    StoreError,
    engine::{
        commit::{
            room::{DiskBudget, SPACE_RETRY_PAUSE},
            shared::Shared,
        },
        metrics,
        tree::{
            checkpoint::{BATCH_EDITS, copy},
            checkpoint_position::CheckpointPosition,
            memtable::{Memtable, State},
            panics::catch_panic,
        },
    },
    error::io_fault,
};

/// Handle of the checkpoint thread for the commit thread.
pub(crate) struct Checkpoints {
    /// Channel to the thread; `None` once it must end.
    work: Option<SyncSender<Work>>,
    done: Receiver<()>,
    /// Whether a checkpoint is running or has failed.
    running: bool,
    thread: Option<JoinHandle<()>>,
}

struct Work {
    frozen: Arc<Memtable>,
    checkpoint: CheckpointPosition,
}

impl Checkpoints {
    /// Starts the thread. `data` is sled's file.
    pub(crate) fn start(shared: Arc<Shared>, data: File, path: &Path) -> Result<Self, StoreError> {
        // Capacity 1: the commit thread starts no second checkpoint before the first has ended.
        let (work, todo) = sync_channel(1);
        let (tell, done) = channel();
        let thread = thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || shared.guard("checkpoint", || run(&shared, &data, &todo, &tell)))
            .map_err(io_fault(path, "start the checkpoint thread of"))?;
        Ok(Self { work: Some(work), done, running: false, thread: Some(thread) })
    }

    /// Whether the last checkpoint has ended. False for ever after a failure.
    pub(crate) fn is_idle(&mut self) -> bool {
        if self.running && self.done.try_recv().is_ok() {
            self.running = false;
        }
        !self.running
    }

    /// Waits for the end of the running checkpoint. False when it failed, or waits for disk space.
    pub(crate) fn wait(&mut self, room: &DiskBudget) -> bool {
        while self.running {
            match self.done.recv_timeout(SPACE_RETRY_PAUSE) {
                Ok(()) => self.running = false,
                Err(RecvTimeoutError::Timeout) if !room.is_waiting() => {}
                Err(_) => break,
            }
        }
        !self.running
    }

    /// Starts a checkpoint of the frozen memtable. No other may be running.
    pub(crate) fn begin(&mut self, frozen: Arc<Memtable>, checkpoint: CheckpointPosition) {
        let sent = self.work.as_ref().is_some_and(|work| work.try_send(Work { frozen, checkpoint }).is_ok());
        // The thread ends after a failure, so `running` then stays true.
        self.running = true;
        if !sent {
            tracing::debug!("no checkpoint: the last one failed");
        }
    }

    /// Ends the thread.
    pub(crate) fn end(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // The thread catches its own panics.
            thread.join().ok();
        }
    }
}

fn run(shared: &Shared, data: &File, todo: &Receiver<Work>, done: &Sender<()>) {
    while let Ok(Work { frozen, checkpoint }) = todo.recv() {
        let begun = Instant::now();
        let copied = catch_panic("checkpoint", || {
            let room = || shared.room.wait_for_batch();
            copy(&shared.table, room, || data.sync_data(), Entries::of(&frozen), checkpoint, || *shared.log_end.lock())
        });
        if let Err(error) = copied {
            // The store is being closed; the next opening continues.
            if matches!(error, StoreError::Full { .. }) {
                return;
            }
            // The log has everything, but without checkpoints it would grow for ever.
            shared.poison(&error);
            return;
        }
        shared.table.recent().forget();
        metrics::checkpoint(begun.elapsed());
        if done.send(()).is_err() {
            return;
        }
    }
}

/// Iterator over all entries of a frozen memtable, in pages rather than one copy.
struct Entries<'m> {
    memtable: &'m Memtable,
    page: std::vec::IntoIter<(IVec, State)>,
    last: Option<IVec>,
}

impl<'m> Entries<'m> {
    fn of(memtable: &'m Memtable) -> Self {
        Self { memtable, page: Vec::new().into_iter(), last: None }
    }
}

impl Iterator for Entries<'_> {
    type Item = (IVec, State);

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.len() == 0 {
            let from = self.last.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(&**last));
            self.page = self.memtable.page(from, Bound::Unbounded, BATCH_EDITS).into_iter();
        }
        let item = self.page.next()?;
        self.last = Some(item.0.clone());
        Some(item)
    }
}
