//! Checkpoints: copying a frozen memtable to the tree, on a thread of their own, so that its generation of the write-ahead
//! log may be written over.
//!
//! This thread is the only one that writes to sled while a store is open, and the shape in which it does is not a matter of
//! taste. Sled 0.34 deadlocks when small batches are written without a flush after each. Its flush asks the kernel for
//! `sync_file_range`, which does not survive a loss of power; and when the power goes, sled opens again if one batch is torn, but
//! not if pages are missing from several. So: one batch, one flush, one `fdatasync`, the next. A batch is small, since sled
//! holds readers up while it applies one.
//!
//! A checkpoint that is cut short has copied some of the edits. That does no harm: the log has all of them, and copying them
//! again comes to the same. Edits of one key were combined before, so a resource that changed a hundred times, or an event
//! that came and went, costs the tree little or nothing.

use std::{
    fs::File,
    hash::{BuildHasher as _, Hasher as _, RandomState},
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

use super::{
    Shared, contained, keys,
    memtable::{Memtable, State},
    metrics,
    open::io_fault,
    table::Table,
};
use crate::StoreError;

/// A batch is cut at this many edits,
const BATCH_EDITS: usize = 256;
/// or this many bytes.
const BATCH_BYTES: usize = 256 << 10;
/// The layout of the mark.
const LAYOUT: u8 = 1;

/// How far the tree has what the write-ahead log has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The newest generation of which the tree has everything; 0 before the first.
    pub(crate) generation: u64,
    /// The number of the first record that it has not.
    pub(crate) number: u64,
    /// What the log's checksums begin with.
    pub(crate) salt: u64,
}

impl Mark {
    /// Of a store that had no log yet.
    pub(crate) fn new() -> Self {
        // What the standard library seeds its maps with is random, and of each call another.
        Self { generation: 0, number: 0, salt: RandomState::new().build_hasher().finish() }
    }

    /// The mark in the tree, `None` in that of a store which never had a log.
    pub(crate) fn read(table: &Table) -> Result<Option<Self>, StoreError> {
        let Some(value) = table.get(keys::MARK)? else { return Ok(None) };
        Self::decode(&value).map(Some).ok_or_else(|| table.damaged(keys::MARK, "the checksum does not match"))
    }

    /// Layout (1), generation (8), number (8), salt (8), CRC-32 of the key and these (4).
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut value = vec![LAYOUT];
        for number in [self.generation, self.number, self.salt] {
            value.extend_from_slice(&number.to_be_bytes());
        }
        let sum = checksum(&value);
        value.extend_from_slice(&sum.to_be_bytes());
        value
    }

    /// From the stored form; `None` when that is damaged.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let (rest, sum) = value.split_last_chunk::<4>()?;
        let (&layout, numbers) = rest.split_first()?;
        let (generation, numbers) = numbers.split_first_chunk::<8>()?;
        let (number, salt) = numbers.split_first_chunk::<8>()?;
        let mark = Self {
            generation: u64::from_be_bytes(*generation),
            number: u64::from_be_bytes(*number),
            salt: u64::from_be_bytes(salt.try_into().ok()?),
        };
        (layout == LAYOUT && checksum(rest) == u32::from_be_bytes(*sum)).then_some(mark)
    }
}

fn checksum(value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(keys::MARK);
    hasher.update(value);
    hasher.finalize()
}

/// Copies states to the tree and then writes the mark, all of it durable when this returns. `sync` makes what was written to
/// sled's file durable.
pub(crate) fn copy(
    table: &Table,
    mut sync: impl FnMut() -> io::Result<()>,
    states: impl Iterator<Item = (IVec, State)>,
    mark: Mark,
) -> Result<(), StoreError> {
    let mut write = |batch: sled::Batch| {
        table.write_through(batch)?;
        sync().map_err(|source| table.io("sync", source))
    };
    let (mut batch, mut edits, mut bytes) = (sled::Batch::default(), 0, 0);
    for (key, state) in states {
        edits += 1;
        bytes += key.len() + state.as_ref().map_or(0, |value| value.len());
        match state {
            Some(value) => batch.insert(key, value),
            None => batch.remove(key),
        }
        if edits >= BATCH_EDITS || bytes >= BATCH_BYTES {
            write(std::mem::take(&mut batch))?;
            (edits, bytes) = (0, 0);
        }
    }
    if edits > 0 {
        write(batch)?;
    }
    // The mark must not be durable before what it is about.
    let mut batch = sled::Batch::default();
    batch.insert(keys::MARK, mark.encode());
    write(batch)
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
    mark: Mark,
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
    pub(crate) fn begin(&mut self, frozen: Arc<Memtable>, mark: Mark) {
        let sent = self.work.as_ref().is_some_and(|work| work.try_send(Work { frozen, mark }).is_ok());
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
    while let Ok(Work { frozen, mark }) = todo.recv() {
        let begun = Instant::now();
        let copied = contained("checkpoint", || copy(&shared.table, || data.sync_data(), Entries::of(&frozen), mark));
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

/// Opens sled's file to sync it.
pub(crate) fn data_file(path: &Path) -> Result<File, StoreError> {
    let open = || -> io::Result<File> { std::fs::OpenOptions::new().read(true).write(true).open(path) };
    open().map_err(io_fault(path, "open"))
}

#[cfg(test)]
mod tests {
    use super::Mark;

    #[test]
    fn every_flipped_bit_of_a_mark_is_noticed() {
        let mark = Mark { generation: 7, number: 9, ..Mark::new() };
        let value = mark.encode();
        assert_eq!(Mark::decode(&value), Some(mark));
        for position in 0..value.len() * 8 {
            let mut broken = value.clone();
            broken[position / 8] ^= 1 << (position % 8);
            assert_eq!(Mark::decode(&broken), None, "{position}");
        }
        assert_eq!(Mark::decode(&value[1..]), None);
    }

    #[test]
    fn salts_differ() {
        assert_ne!(Mark::new().salt, Mark::new().salt);
    }
}
