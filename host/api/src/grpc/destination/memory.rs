//! What the destination API holds in memory of services, in all.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The sum. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory(Arc<AtomicUsize>);

impl Memory {
    /// Bytes.
    pub(super) fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A share of nothing yet.
    pub(super) fn share(&self) -> MemoryShare {
        MemoryShare { sum: self.clone(), bytes: 0 }
    }
}

/// What one thing takes; given back when it is dropped.
#[derive(Debug)]
pub(super) struct MemoryShare {
    sum: Memory,
    bytes: usize,
}

impl MemoryShare {
    /// It takes so many bytes from here on.
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
