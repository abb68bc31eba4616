//! What a guest writes to stdout and stderr where `wasi:io` is wasmtime's, until it is logged.

use std::sync::Arc;

use parking_lot::Mutex;

/// How much a guest may write to stdout or stderr at once, bytes: what `check-write` says.
pub(super) const CHUNK: usize = 4096;

/// Longest line of stdout or stderr that is kept together, bytes.
pub(crate) const LINE: usize = 1024;

/// What was written to stdout and stderr and is not in the log yet. Clones are one buffer.
#[derive(Clone)]
pub(crate) struct PrintedLines {
    streams: Arc<Mutex<[Vec<u8>; 2]>>,
    /// Of each stream, bytes; the log drops and counts what is beyond its own limit, so some more is kept than that.
    limit: usize,
}

impl PrintedLines {
    pub(super) fn new(log_bytes: usize) -> Self {
        Self { streams: Arc::default(), limit: log_bytes.saturating_add(LINE) }
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
