//! The bounded queue of the commit thread: many async producers, one blocking consumer that takes everything.
//!
//! Closing lets the consumer drain the accepted items without waiting for producers that still wait for a place. The
//! consumer passes the number of items that it expects, and waits a moment for them ([`GROUP_WAIT`]); it does not wait
//! for a lone producer. A channel has neither: docs/decisions/0013-the-commit-thread-has-a-queue-of-its-own.md.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;

use crate::StoreError;

/// Longest wait of the consumer for expected items.
const GROUP_WAIT: Duration = Duration::from_micros(500);

/// A bounded queue of `T`.
pub(crate) struct Queue<T> {
    places: Semaphore,
    state: Mutex<State<T>>,
    filled: Condvar,
}

struct State<T> {
    items: Vec<T>,
    /// Number of items that wakes the consumer.
    wanted: usize,
    closed: bool,
}

impl<T> Queue<T> {
    /// Makes a queue with room for `bound` items.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            places: Semaphore::new(bound),
            state: Mutex::new(State { items: Vec::new(), wanted: 1, closed: false }),
            filled: Condvar::new(),
        }
    }

    /// Waits for a place and adds the item. A dropped future adds nothing.
    pub(crate) async fn push(&self, item: T) -> Result<(), StoreError> {
        let permit = self.places.acquire().await.map_err(|_| StoreError::Closed)?;
        let mut state = self.state.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        permit.forget();
        state.items.push(item);
        let enough = state.items.len() >= state.wanted;
        drop(state);
        if enough {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Waits for an item, and a moment longer for up to `expected`; takes all items. `None` when the queue is closed
    /// and drained.
    pub(crate) fn take(&self, expected: usize) -> Option<Vec<T>> {
        let mut state = self.state.lock();
        state.wanted = 1;
        while state.items.is_empty() {
            if state.closed {
                return None;
            }
            self.filled.wait(&mut state);
        }
        let until = Instant::now() + GROUP_WAIT;
        state.wanted = expected;
        while state.items.len() < expected && !state.closed {
            if self.filled.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        let items = std::mem::take(&mut state.items);
        drop(state);
        self.places.add_permits(items.len());
        Some(items)
    }

    /// Adds an item if there is a place now.
    pub(crate) fn push_if_room(&self, item: T) {
        let Ok(permit) = self.places.try_acquire() else { return };
        let mut state = self.state.lock();
        if !state.closed {
            permit.forget();
            state.items.push(item);
            drop(state);
            self.filled.notify_one();
        }
    }

    /// Whether the queue refuses further items.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Refuses further items; waiting items stay until they are taken.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.places.close();
        self.filled.notify_one();
    }
}

#[cfg(test)]
#[cfg(not(simulation))]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::Queue;

    #[tokio::test]
    async fn a_full_queue_makes_producers_wait_and_closing_drains_it() {
        let queue = Arc::new(Queue::new(2));
        queue.push(1).await.unwrap();
        queue.push(2).await.unwrap();
        let waiting = tokio::time::timeout(Duration::from_millis(20), queue.push(3));
        assert!(waiting.await.is_err(), "the third has no place");
        assert_eq!(queue.take(1), Some(vec![1, 2]));
        queue.push(4).await.unwrap();
        queue.close();
        assert!(queue.push(5).await.is_err());
        assert_eq!(queue.take(1), Some(vec![4]));
        assert_eq!(queue.take(1), None);
    }

    #[tokio::test]
    async fn a_crowd_is_waited_for_but_not_for_long() {
        let queue = Arc::new(Queue::new(8));
        queue.push(1).await.unwrap();
        assert_eq!(queue.take(2), Some(vec![1]), "no second item came");
        let consumer = {
            let queue = queue.clone();
            std::thread::spawn(move || queue.take(2))
        };
        queue.push(2).await.unwrap();
        queue.push(3).await.unwrap();
        let taken = consumer.join().unwrap().unwrap();
        assert!(taken == [2, 3] || taken == [2], "what came in time: {taken:?}");
    }
}
