//! Checkpoints: copying a frozen memtable to the tree, on a thread of their own, so that its generation of the
//! write-ahead log may be written over.
//!
//! It writes as [`tree::checkpoint`](crate::engine::tree::checkpoint) says, and is the only one that does while a store
//! is open.
//!
//! A checkpoint that is cut short has copied some of the edits. That does no harm: the log has all of them, and copying
//! them again comes to the same. Edits of one key were combined before, so a resource that changed a hundred times, or
//! an event that came and went, costs the tree little or nothing.

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
            room::{RETRY, Room},
            shared::Shared,
        },
        metrics,
        tree::{
            checkpoint::{BATCH_EDITS, copy},
            checkpoint_position::CheckpointPosition,
            memtable::{Memtable, State},
            panics::contained,
        },
    },
    error::io_fault,
};

/// The thread, as the commit thread sees it.
pub(crate) struct Checkpoints {
    /// Gone when no more will come.
    work: Option<SyncSender<Work>>,
    done: Receiver<()>,
    /// Whether one is on its way.
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
        // One place: the commit thread gives no second one before it heard of the first.
        let (work, todo) = sync_channel(1);
        let (tell, done) = channel();
        let thread = thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || run(&shared, &data, &todo, &tell))
            .map_err(io_fault(path, "start the checkpoint thread of"))?;
        Ok(Self { work: Some(work), done, running: false, thread: Some(thread) })
    }

    /// Whether the one that was begun last is through. False for ever once one failed.
    pub(crate) fn is_idle(&mut self) -> bool {
        if self.running && self.done.try_recv().is_ok() {
            self.running = false;
        }
        !self.running
    }

    /// Waits until it is. False when it failed, or waits for room on the disk.
    pub(crate) fn wait(&mut self, room: &Room) -> bool {
        while self.running {
            match self.done.recv_timeout(RETRY) {
                Ok(()) => self.running = false,
                Err(RecvTimeoutError::Timeout) if !room.is_waiting() => {}
                Err(_) => break,
            }
        }
        !self.running
    }

    /// Begins to copy what was frozen. None may be on its way.
    pub(crate) fn begin(&mut self, frozen: Arc<Memtable>, checkpoint: CheckpointPosition) {
        let sent = self.work.as_ref().is_some_and(|work| work.try_send(Work { frozen, checkpoint }).is_ok());
        // One that failed took its thread with it, and is never through.
        self.running = true;
        if !sent {
            tracing::debug!("no checkpoint: the last one failed");
        }
    }

    /// Ends the thread.
    pub(crate) fn end(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // It contains its panics.
            thread.join().ok();
        }
    }
}

fn run(shared: &Shared, data: &File, todo: &Receiver<Work>, done: &Sender<()>) {
    while let Ok(Work { frozen, checkpoint }) = todo.recv() {
        let begun = Instant::now();
        let copied = contained("checkpoint", || {
            let room = || shared.room.wait_for_batch();
            copy(&shared.table, room, || data.sync_data(), Entries::of(&frozen), checkpoint, || *shared.log_end.lock())
        });
        if let Err(error) = copied {
            // The store is closed, and the next opening goes on.
            if matches!(error, StoreError::Full { .. }) {
                return;
            }
            // The log has everything, but it cannot go on without end.
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

/// Everything in a memtable that nobody changes any more, without a copy of all of it.
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
