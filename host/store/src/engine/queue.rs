//! The bounded queue in front of the commit thread: many async producers, one blocking consumer that takes everything.
//!
//! A channel would do but for closing: closing must let the consumer drain what was accepted without waiting for
//! producers that still hope for a place and may never be polled again.

use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;

use crate::StoreError;

/// A bounded queue of `T`.
pub(crate) struct Queue<T> {
    places: Semaphore,
    state: Mutex<State<T>>,
    filled: Condvar,
}

struct State<T> {
    items: Vec<T>,
    closed: bool,
}

impl<T> Queue<T> {
    /// With room for `bound` items.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            places: Semaphore::new(bound),
            state: Mutex::new(State { items: Vec::new(), closed: false }),
            filled: Condvar::new(),
        }
    }

    /// Waits for a place and takes it. Dropping the future before it is done puts nothing in.
    pub(crate) async fn push(&self, item: T) -> Result<(), StoreError> {
        let permit = self.places.acquire().await.map_err(|_| StoreError::Closed)?;
        let mut state = self.state.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        permit.forget();
        state.items.push(item);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Waits until there is something and takes all of it; `None` when the queue is closed and drained.
    pub(crate) fn take(&self) -> Option<Vec<T>> {
        let mut state = self.state.lock();
        while state.items.is_empty() {
            if state.closed {
                return None;
            }
            self.filled.wait(&mut state);
        }
        let items = std::mem::take(&mut state.items);
        drop(state);
        self.places.add_permits(items.len());
        Some(items)
    }

    /// Refuses further items; what is in stays until it is taken.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.places.close();
        self.filled.notify_one();
    }
}

#[cfg(test)]
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
        assert_eq!(queue.take(), Some(vec![1, 2]));
        queue.push(4).await.unwrap();
        queue.close();
        assert!(queue.push(5).await.is_err());
        assert_eq!(queue.take(), Some(vec![4]));
        assert_eq!(queue.take(), None);
    }
}
