//! The lines that wait for a sink.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

/// The queue.
pub(super) struct Queue {
    state: Mutex<State>,
    news: Condvar,
    max_records: usize,
    max_bytes: usize,
}

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    bytes: usize,
    /// Whether the thread of the sink has a line.
    is_sending: bool,
    is_closed: bool,
    is_abandoned: bool,
}

impl Queue {
    pub(super) fn new(max_records: usize, max_bytes: usize) -> Self {
        Self { state: Mutex::default(), news: Condvar::new(), max_records, max_bytes }
    }

    /// Adds a line. Returns false for a full or a closed queue.
    pub(super) fn push(&self, line: &str) -> bool {
        let mut state = self.state.lock();
        let waiting = state.lines.len() + usize::from(state.is_sending);
        let fits = waiting < self.max_records && state.bytes.saturating_add(line.len()) <= self.max_bytes;
        if state.is_closed || !fits {
            return false;
        }
        state.bytes += line.len();
        state.lines.push_back(line.to_owned());
        self.news.notify_all();
        true
    }

    /// Takes the oldest line, and waits for one; `None` once the queue is closed and empty.
    pub(super) fn take(&self) -> Option<String> {
        let mut state = self.state.lock();
        loop {
            if state.is_abandoned {
                return None;
            }
            if let Some(line) = state.lines.pop_front() {
                state.bytes -= line.len();
                state.is_sending = true;
                return Some(line);
            }
            if state.is_closed {
                return None;
            }
            self.news.wait(&mut state);
        }
    }

    /// Notes that the taken line was sent.
    pub(super) fn done(&self) {
        self.state.lock().is_sending = false;
        self.news.notify_all();
    }

    /// Puts the taken line back in front.
    pub(super) fn put_back(&self, line: String) {
        let mut state = self.state.lock();
        state.is_sending = false;
        if !state.is_abandoned {
            state.bytes += line.len();
            state.lines.push_front(line);
        }
    }

    /// Waits for a time; ends early once the queue is closed.
    pub(super) fn pause(&self, time: Duration) {
        let mut state = self.state.lock();
        let is_open = |state: &mut State| !state.is_abandoned;
        if state.is_closed {
            // A stop waits for a moment only, so the attempts come closer.
            self.news.wait_while_for(&mut state, is_open, time / 100);
        } else {
            self.news.wait_while_for(&mut state, |state| !state.is_closed, time);
        }
    }

    /// Takes no further lines.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.news.notify_all();
    }

    /// Waits until every line was sent, or until a time.
    pub(super) fn wait_until_done(&self, until: Instant) {
        let mut state = self.state.lock();
        let is_busy = |state: &mut State| !state.lines.is_empty() || state.is_sending;
        self.news.wait_while_until(&mut state, is_busy, until);
    }

    /// Drops the rest, and ends the thread once it has no line. Returns the number of lines that were not sent.
    pub(super) fn abandon(&self) -> usize {
        let mut state = self.state.lock();
        state.is_abandoned = true;
        state.bytes = 0;
        let lost = std::mem::take(&mut state.lines).len() + usize::from(state.is_sending);
        self.news.notify_all();
        lost
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let state = self.state.lock();
        match state.is_abandoned {
            true => state.lines.len(),
            false => state.lines.len() + usize::from(state.is_sending),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    #[test]
    fn lines_are_bounded_in_number_and_bytes_and_keep_their_order() {
        let queue = Queue::new(3, 10);
        assert!(queue.push("123456") && queue.push("1234") && !queue.push("1"), "10 bytes");
        let first = queue.take().unwrap();
        assert!(queue.push("") && !queue.push(""), "the line that is being sent is the third");
        queue.put_back(first);
        assert_eq!((queue.take().as_deref(), queue.take().as_deref()), (Some("123456"), Some("1234")));
    }

    #[test]
    fn a_stop_waits_until_the_last_line_was_sent() {
        let queue = Arc::new(Queue::new(3, 100));
        assert!(queue.push("line"));
        queue.close();
        assert!(!queue.push("late"));
        let sent = queue.clone();
        let sink = thread::spawn(move || {
            while sent.take().is_some() {
                thread::yield_now();
                sent.done();
            }
        });
        queue.wait_until_done(Instant::now() + Duration::from_secs(600));
        assert_eq!(queue.abandon(), 0);
        sink.join().unwrap();
    }
}
