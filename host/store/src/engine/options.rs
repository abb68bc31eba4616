//! What can be set about the engine. Every bound has a finite default.

use std::path::PathBuf;

use crate::Quotas;

/// Settings of a [`SledBackend`](crate::SledBackend).
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory that the store has to itself; it is made when it does not exist.
    pub path: PathBuf,
    /// How much of the file is kept in memory, bytes. Default 32 MiB, which holds some 20,000 resources of 600 bytes;
    /// what does not fit is read from the file when it is asked for. What was written last and is not in the tree yet
    /// takes memory besides: half as much, but at most 16 MiB, and up to four times that under a load that the disk
    /// cannot follow. At least 64 KiB: less means that.
    pub cache_bytes: u64,
    /// Largest encoded resource, its version left out, bytes. Default 1 MiB, at most 1 GiB: more means 1 GiB.
    pub max_resource_bytes: usize,
    /// The most that tenancies may hold, for batches that are [limited](crate::Batch::limited). Default 2,000,000
    /// resources of each type and 8 GiB.
    pub quotas: Quotas,
    /// How many of the newest events are kept on disk. Default 10,000.
    pub history_events: u64,
    /// How many bytes of resources those events may hold; the oldest go first. Default 64 MiB.
    pub history_bytes: u64,
    /// How many events of its type an open watch may be behind before it ends with
    /// [`WatchLagged`](crate::StoreError::WatchLagged). Default 4,096, at most 1,048,576, rounded up to a power of
    /// two.
    pub watch_buffer: usize,
    /// How many bytes of those events there may be, for each type. Default 32 MiB.
    pub watch_buffer_bytes: usize,
    /// How many bytes of events may wait for all watches of all types, and how many scans may remember of what was
    /// overwritten in front of them. Default 128 MiB.
    pub watch_bytes: usize,
    /// How many batches may wait for the commit thread; callers beyond that wait for a place. Default 1,024, at most
    /// 1,048,576.
    pub commit_queue: usize,
    /// How much of the disk is taken ahead for what is written later, bytes: so much for the tree, and a quarter of it
    /// for each of the two files of the write-ahead log. When the disk has no more to give, writes are refused with
    /// [`Full`](crate::StoreError::Full), and deletions and checkpoints go on with what was taken. Default 16 MiB, 8
    /// MiB to 1 GiB.
    pub reserve_bytes: u64,
    /// How many resources, entries of the owner index and events are compared with their sums each second, in the
    /// background; 0 for none. Default 2,000.
    pub scrub_per_second: u64,
    /// Whether everything is compared with its sums at each opening, also after a close in good order. A store that
    /// nobody closed, and one whose file is small, always is. Takes about a second and a half for each million
    /// resources.
    pub compare_at_start: bool,
}

/// The least that is taken ahead, bytes: twice what one batch of a checkpoint may make sled write.
const MIN_RESERVE: u64 = 8 << 20;

impl Options {
    /// The defaults, for a store in `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            cache_bytes: 32 << 20,
            max_resource_bytes: 1 << 20,
            quotas: Quotas::default(),
            history_events: 10_000,
            history_bytes: 64 << 20,
            watch_buffer: 4096,
            watch_buffer_bytes: 32 << 20,
            watch_bytes: 128 << 20,
            commit_queue: 1024,
            reserve_bytes: 16 << 20,
            scrub_per_second: 2_000,
            compare_at_start: false,
        }
    }

    /// What may be in the write-ahead log and not in the tree before a checkpoint begins, bytes in memory.
    pub(crate) fn memtable_bytes(&self) -> usize {
        let half = usize::try_from(self.cache_bytes / 2).unwrap_or(usize::MAX);
        half.clamp(64 << 10, 16 << 20)
    }

    /// The options, with every value in the range that the documentation of the fields promises.
    pub(crate) fn in_range(mut self) -> Self {
        // The tree panics on a cache of a few bytes.
        self.cache_bytes = self.cache_bytes.max(64 << 10);
        self.max_resource_bytes = self.max_resource_bytes.min(1 << 30);
        self.watch_buffer = self.watch_buffer.clamp(1, 1 << 20).next_power_of_two();
        self.commit_queue = self.commit_queue.clamp(1, 1 << 20);
        self.scrub_per_second = self.scrub_per_second.min(1_000_000);
        self.reserve_bytes = self.reserve_bytes.clamp(MIN_RESERVE, 1 << 30);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn values_out_of_range_are_brought_into_it() {
        let options = Options { watch_buffer: 1000, commit_queue: 0, cache_bytes: 1, ..Options::new("x") }.in_range();
        assert_eq!((options.watch_buffer, options.commit_queue, options.cache_bytes), (1024, 1, 64 << 10));
        let options = Options { watch_buffer: 100_000_000, ..Options::new("x") }.in_range();
        assert_eq!(options.watch_buffer, 1 << 20);
    }
}
