//! Counts the memory of the destination API for services.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The sum. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Arc<AtomicUsize>);

impl Memory {
    /// Bytes in use.
    pub(super) fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// An empty share.
    pub(super) fn share(&self) -> MemoryShare {
        MemoryShare { sum: self.clone(), bytes: 0 }
    }
}

/// The memory of one object; returned when the share is dropped.
#[derive(Debug)]
pub(in crate::grpc) struct MemoryShare {
    sum: Memory,
    bytes: usize,
}

impl MemoryShare {
    /// Sets the size of the share.
    pub(super) fn set(&mut self, bytes: usize) {
        self.sum.0.fetch_add(bytes, Ordering::Relaxed);
        self.sum.0.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.set(0);
    }
}
