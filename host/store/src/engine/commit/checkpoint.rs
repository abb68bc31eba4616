//! Checkpoints: copying a frozen memtable to the tree, on a thread of their own, so that its generation of the write-ahead
//! log may be written over.
//!
//! This thread is the only one that changes sled's keys while a store is open (sled's readers split and merge its pages), and
//! the shape in which it does is not a matter of taste. Sled 0.34 deadlocks when small batches are written without a flush
//! after each. Its flush asks the kernel for `sync_file_range`, which does not survive a loss of power. When the power goes, sled
//! opens again if a small batch is torn; with one of 256 KiB, or with pages missing from several, it sometimes did not
//! (`tests/power.rs`; in 12,000 states with 64 KiB it always did). So: one small batch, one flush, one `fdatasync`, the next.
//! Sled also holds readers up while it applies one.
//!
//! A checkpoint that is cut short has copied some of the edits. That does no harm: the log has all of them, and copying them
//! again comes to the same. Edits of one key were combined before, so a resource that changed a hundred times, or an event
//! that came and went, costs the tree little or nothing.

use std::{
    fs::File,
    io,
    ops::Bound,
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use sled::IVec;

use crate::StoreError;
use crate::engine::{
    Shared, contained, metrics,
    open::io_fault,
    tree::{
        checkpoint_position::CheckpointPosition,
        keys,
        memtable::{Memtable, State},
        table::Table,
        write_batch,
    },
};

/// A batch is cut at this many edits, each of which may make sled write another page,
const BATCH_EDITS: usize = 64;
/// or about this many bytes: after the edit that reaches them.
const BATCH_BYTES: usize = 64 << 10;

/// Copies states to the tree and then writes the checkpoint position, all of it durable when this returns. `sync` makes what was written to
/// sled's file durable.
pub(crate) fn copy(
    table: &Table,
    mut sync: impl FnMut() -> io::Result<()>,
    states: impl Iterator<Item = (IVec, State)>,
    checkpoint: CheckpointPosition,
) -> Result<(), StoreError> {
    let mut write = |batch: sled::Batch| {
        table.write_through(batch)?;
        sync().map_err(|source| table.io("sync", source))
    };
    let (mut batch, mut edits, mut bytes) = (sled::Batch::default(), 0, 0);
    let mut last = sled::Batch::default();
    for (key, state) in states {
        // The counters say what there is, so they come after it: a tree that has lost its end is known by them.
        if *key == *keys::META {
            write_batch::put(&mut last, key, state);
            continue;
        }
        // Most events that were trimmed never got here.
        if state.is_none() && !table.tree_has(&key)? {
            continue;
        }
        edits += 1;
        bytes += key.len() + state.as_ref().map_or(0, |value| value.len());
        write_batch::put(&mut batch, key, state);
        if edits >= BATCH_EDITS || bytes >= BATCH_BYTES {
            write(std::mem::take(&mut batch))?;
            (edits, bytes) = (0, 0);
        }
    }
    if edits > 0 {
        write(batch)?;
    }
    // Nor must the checkpoint position be durable before what it is about.
    last.insert(keys::CHECKPOINT, checkpoint.encode());
    write(last)
}

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

    /// Waits until it is. False when it failed.
    pub(crate) fn wait(&mut self) -> bool {
        if self.running && self.done.recv().is_ok() {
            self.running = false;
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
        let copied =
            contained("checkpoint", || copy(&shared.table, || data.sync_data(), Entries::of(&frozen), checkpoint));
        if let Err(error) = copied {
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
