//! Settings of the engine. Every bound has a finite default.

use std::{path::PathBuf, time::Duration};

use crate::Quotas;

/// Settings of a [`SledBackend`](crate::SledBackend).
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the store alone; made if missing.
    pub path: PathBuf,
    /// Bytes of the file that are cached in memory. Default 32 MiB, which holds some 20,000 resources of 600 bytes; the
    /// rest is read from the file when needed. Recent writes that are not in the tree yet take further memory: half as
    /// much, but at most 16 MiB, and up to four times that if the disk is slower than the writers. Minimum 64 KiB.
    pub cache_bytes: u64,
    /// Largest encoded resource without its version, bytes. Default 1 MiB, maximum 1 GiB.
    pub max_resource_bytes: usize,
    /// Limits of tenancies, for [limited](crate::Batch::limited) batches. Default 2,000,000 resources of each type and
    /// 8 GiB.
    pub quotas: Quotas,
    /// Number of newest events kept on disk. Default 10,000.
    pub history_events: u64,
    /// Bytes of those events' resources; the oldest events go first. Default 64 MiB.
    pub history_bytes: u64,
    /// Number of events of its type by which an open watch may lag before it ends with
    /// [`WatchLagged`](crate::StoreError::WatchLagged). Default 4,096, at most 1,048,576, rounded up to a power of two.
    pub watch_buffer: usize,
    /// Bytes of those events for each type. Default 32 MiB.
    pub watch_buffer_bytes: usize,
    /// Bytes of events that may wait for all watches of all types. Scans may buffer the same amount of overwritten
    /// versions. Default 128 MiB.
    pub watch_bytes: usize,
    /// Batches that may wait for the commit thread; further callers wait for a place. Default 1,024, at most 1,048,576.
    pub commit_queue: usize,
    /// Disk space reserved for later writes, bytes: this much for the tree, and a quarter of it for each of the two
    /// files of the write-ahead log. On a full disk, writes fail with [`Full`](crate::StoreError::Full), while
    /// deletions and checkpoints use the reserve. Default 16 MiB, 8 MiB to 1 GiB.
    pub reserve_bytes: u64,
    /// Least time of a sync of the log, as of a slower disk. Default zero; tests of batches that share a sync set it.
    pub sync_time: Duration,
    /// Resources, index entries and events that are compared with the store's sums each second, in the background; 0
    /// for none. Default 2,000.
    pub scrub_per_second: u64,
    /// Whether each opening compares everything with its sums, even after a clean close. Small stores, and stores
    /// that were not closed cleanly, always are. Takes about a second and a half for each million resources.
    pub compare_at_start: bool,
    /// Whether every batch is refused with [`ReadOnly`](crate::StoreError::ReadOnly). Default false.
    pub read_only: bool,
}

/// Smallest reserve, bytes: twice what sled may write for one batch of a checkpoint.
const MIN_RESERVE_BYTES: u64 = 8 << 20;

impl Options {
    /// Makes the defaults for a store in `path`.
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
            sync_time: Duration::ZERO,
            scrub_per_second: 2_000,
            compare_at_start: false,
            read_only: false,
        }
    }

    /// Returns the bytes of recent writes in memory at which a checkpoint begins.
    pub(crate) fn memtable_bytes(&self) -> usize {
        let half = usize::try_from(self.cache_bytes / 2).unwrap_or(usize::MAX);
        half.clamp(64 << 10, 16 << 20)
    }

    /// Returns the options with every value in its documented range.
    pub(crate) fn in_range(mut self) -> Self {
        // Sled panics on a cache of a few bytes.
        self.cache_bytes = self.cache_bytes.max(64 << 10);
        self.max_resource_bytes = self.max_resource_bytes.min(1 << 30);
        self.watch_buffer = self.watch_buffer.clamp(1, 1 << 20).next_power_of_two();
        self.commit_queue = self.commit_queue.clamp(1, 1 << 20);
        self.scrub_per_second = self.scrub_per_second.min(1_000_000);
        self.reserve_bytes = self.reserve_bytes.clamp(MIN_RESERVE_BYTES, 1 << 30);
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
