//! The end of the log: standard error, whose reader may be slow, stuck or gone, and whose disk may be full.
//!
//! # Contract
//! A line neither blocks the caller, nor fails, nor panics. A thread writes the lines. As long as it keeps up, a caller
//! waits the moment until its line is written, so that the log shows what has happened before an answer; a caller waits
//! for no other lines, and never longer than [`LINE_WAIT`]. A line without room in the buffer, or with a fault of the
//! file, is dropped and counted (`mortise_log_lines_dropped_total`); once lines can be written again, the log has their
//! number.
//!
//! # Limits
//! The buffer holds [`BUFFER_BYTES`], the bytes that the thread is writing included. [`LogOutput::flush`] waits for a
//! bounded time.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

/// Bytes of lines that may wait for standard error.
const BUFFER_BYTES: usize = 1 << 20;

/// Longest wait of a caller for its line to be written. A stuck reader costs this once.
const LINE_WAIT: Duration = Duration::from_millis(10);

/// Pause before another attempt, if another process has made the open file non-blocking and it has no room.
const ROOM_PAUSE: Duration = Duration::from_millis(10);

/// The log's standard error. Cheap to clone.
#[derive(Clone)]
pub(crate) struct LogOutput(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Wakes the thread.
    waiting: Condvar,
    /// Wakes callers of [`LogOutput::flush`].
    idle: Condvar,
}

#[derive(Default)]
struct State {
    /// Lines for the thread.
    lines: Vec<u8>,
    /// Bytes that the thread is writing.
    writing: usize,
    /// Dropped lines that the log does not name yet.
    unreported: u64,
    /// All dropped lines.
    dropped: u64,
    /// Whether the last written byte is inside a line.
    torn: bool,
}

impl State {
    fn is_idle(&self) -> bool {
        self.lines.is_empty() && self.writing == 0
    }

    fn drop_lines(&mut self, lines: &[u8]) {
        let count = lines.iter().filter(|byte| **byte == b'\n').count().max(1) as u64;
        self.unreported += count;
        self.dropped += count;
        metrics::counter!("mortise_log_lines_dropped_total").absolute(self.dropped);
    }
}

impl LogOutput {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (state, waiting, idle) = Default::default();
        let output = Self(Arc::new(Shared { state, waiting, idle }));
        let shared = output.0.clone();
        thread::Builder::new().name("mortise-log".to_owned()).spawn(move || shared.write_for_ever())?;
        Ok(output)
    }

    /// Writes a line, with its line feed, or lets it wait, or drops it.
    pub(crate) fn line(&self, line: &[u8]) {
        let mut state = self.0.state.lock();
        let keeps_up = state.is_idle();
        if state.lines.len() + state.writing + line.len() > BUFFER_BYTES {
            return state.drop_lines(line);
        }
        state.lines.extend_from_slice(line);
        self.0.waiting.notify_one();
        if keeps_up {
            self.0.idle.wait_for(&mut state, LINE_WAIT);
        }
    }

    /// Waits until nothing waits, at most for `limit`.
    pub(crate) fn flush(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut state = self.0.state.lock();
        while !state.is_idle() {
            if self.0.idle.wait_until(&mut state, deadline).timed_out() {
                return;
            }
        }
    }
}

impl io::Write for LogOutput {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.line(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn write_for_ever(&self) {
        loop {
            let mut state = self.state.lock();
            while state.lines.is_empty() {
                self.waiting.wait(&mut state);
            }
            let mut lines = std::mem::take(&mut state.lines);
            if state.torn {
                lines.insert(0, b'\n');
            }
            state.writing = lines.len();
            drop(state);
            let lost = write(&lines);
            let mut state = self.state.lock();
            state.writing = 0;
            let complete = lost.is_empty();
            if !complete {
                state.drop_lines(lost);
            }
            let written = lines.len() - lost.len();
            state.torn = match lines.get(..written).and_then(<[u8]>::last) {
                Some(last) => *last != b'\n',
                None => state.torn,
            };
            let unreported = if complete { std::mem::take(&mut state.unreported) } else { 0 };
            self.idle.notify_all();
            drop(state);
            if unreported > 0 {
                tracing::warn!("{unreported} lines of the log were dropped: standard error did not take them");
            }
        }
    }
}

/// Writes as far as standard error takes it; waits for room, but not after a fault. Returns the rest.
fn write(mut bytes: &[u8]) -> &[u8] {
    while !bytes.is_empty() {
        match rustix::io::write(io::stderr(), bytes) {
            Ok(0) => return bytes,
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => thread::park_timeout(ROOM_PAUSE),
            Err(_) => return bytes,
        }
    }
    bytes
}
