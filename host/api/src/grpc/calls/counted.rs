//! Counts bytes once that several answers share.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use hyper::body::Bytes;

/// Counts bytes against `grpc.outbound_buffer_bytes`. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct AnswerBytes(pub(super) Arc<AtomicUsize>);

impl AnswerBytes {
    /// Counts the bytes until no answer has a part of them.
    pub(crate) fn count(&self, bytes: Vec<u8>) -> CountedBytes {
        self.0.fetch_add(bytes.len(), Ordering::Relaxed);
        CountedBytes { bytes, held: self.0.clone() }
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counted bytes.
pub(crate) struct CountedBytes {
    bytes: Vec<u8>,
    held: Arc<AtomicUsize>,
}

impl CountedBytes {
    /// The bytes for an answer, which has to be marked as [`CountsItself`].
    pub(crate) fn share(counted: Arc<Self>) -> Bytes {
        Bytes::from_owner(Owner(counted))
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

struct Owner(Arc<CountedBytes>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// Marks a response whose body consists of [`CountedBytes`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountsItself;
