//! Buffer for stdout and stderr of a guest until they are logged, where `wasi:io` is wasmtime's.

use std::sync::Arc;

use parking_lot::Mutex;

/// Most bytes of one write to stdout or stderr: the answer of `check-write`.
pub(super) const MAX_WRITE_BYTES: usize = 4096;

/// Longest line of stdout or stderr, bytes; longer ones are split.
pub(crate) const MAX_LINE_BYTES: usize = 1024;

/// Output to stdout and stderr that is not logged yet. Clones share one buffer.
#[derive(Clone)]
pub(crate) struct PrintedLines {
    streams: Arc<Mutex<[Vec<u8>; 2]>>,
    /// Most bytes of each stream. Somewhat more than the log's limit, so that the log drops and counts the excess.
    limit: usize,
}

impl PrintedLines {
    pub(super) fn new(log_bytes: usize) -> Self {
        Self { streams: Arc::default(), limit: log_bytes.saturating_add(MAX_LINE_BYTES) }
    }

    /// Takes bytes of stderr or of stdout, as far as there is room.
    pub(super) fn write(&self, err: bool, bytes: &[u8]) {
        let [stdout, stderr] = &mut *self.streams.lock();
        let stream = if err { stderr } else { stdout };
        let room = self.limit.saturating_sub(stream.len());
        stream.extend(bytes.iter().take(room));
    }

    /// Takes both streams, stdout first.
    pub(crate) fn take(&self) -> [Vec<u8>; 2] {
        std::mem::take(&mut *self.streams.lock())
    }
}
