//! A queue that tasks share: [`super::state`] behind a lock, with a notification for the workers that wait.
//!
//! Nothing polls: a worker without work sleeps until something is added or the first timer is due.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Notify, time::Instant};

use super::state::{Content, Job, Next, Queue, Take};
use crate::key::Key;

/// A queue that tasks share.
pub(crate) struct SharedQueue<C> {
    queue: Mutex<Queue<C>>,
    wake: Notify,
}

impl<C: Content> SharedQueue<C> {
    /// Empty and closed.
    pub(crate) fn new() -> Self {
        Self { queue: Mutex::new(Queue::new(Instant::now())), wake: Notify::new() }
    }

    /// The state, locked. Hold it briefly and never across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Queue<C>> {
        self.queue.lock()
    }

    /// Lets items be taken.
    pub(crate) fn open(&self) {
        self.queue.lock().open(Instant::now());
        self.wake.notify_one();
    }

    /// Lets every key that is quarantined run again.
    pub(crate) fn release(&self) {
        self.queue.lock().release(Instant::now());
        self.wake.notify_one();
    }

    /// Ends every [`SharedQueue::next`], one after the other.
    pub(crate) fn close(&self) {
        self.queue.lock().close();
        self.wake.notify_one();
    }

    /// Adds a key.
    pub(crate) fn add(&self, key: &Key, content: C) {
        let added = self.queue.lock().add(key, content, Instant::now());
        if added {
            self.wake.notify_one();
        }
    }

    /// Waits for the next item; `None` when the queue is closed. `throttle` as in [`Queue::take`].
    pub(crate) async fn next(
        &self,
        mut throttle: impl FnMut(&Key, &mut C, bool) -> Option<Duration>,
    ) -> Option<Job<C>> {
        loop {
            let (taken, more) = {
                let mut queue = self.queue.lock();
                let taken = queue.take(Instant::now(), &mut throttle);
                (taken, queue.depth() > 0)
            };
            match taken {
                Take::Job(job) => {
                    // One call wakes one worker; it wakes the next.
                    if more {
                        self.wake.notify_one();
                    }
                    return Some(job);
                }
                Take::Closed => {
                    self.wake.notify_one();
                    return None;
                }
                Take::Wait(None) => self.wake.notified().await,
                Take::Wait(Some(due)) => tokio::select! {
                    () = self.wake.notified() => {}
                    () = tokio::time::sleep_until(due) => {}
                },
            }
        }
    }

    /// Gives an item back.
    pub(crate) fn finish(&self, job: Job<C>, next: Next<C>) {
        let look_again = self.queue.lock().finish(job, next, Instant::now());
        if look_again {
            self.wake.notify_one();
        }
    }
}
