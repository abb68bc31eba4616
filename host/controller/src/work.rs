//! A queue that tasks share: [`crate::queue`] behind a lock, with somebody to wake.
//!
//! Nothing polls: a worker without work sleeps until something is added or the first timer is due.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Notify, time::Instant};

use crate::{
    key::Key,
    queue::{Content, Job, Next, Queue, Take},
};

/// A queue that tasks share.
pub(crate) struct Work<C> {
    queue: Mutex<Queue<C>>,
    wake: Notify,
    /// Wakes whoever waits for the queue to become shorter.
    room: Notify,
}

impl<C: Content> Work<C> {
    /// Empty and closed.
    pub(crate) fn new() -> Self {
        Self { queue: Mutex::new(Queue::new(Instant::now())), wake: Notify::new(), room: Notify::new() }
    }

    /// The state, to look at.
    pub(crate) fn look(&self) -> MutexGuard<'_, Queue<C>> {
        self.queue.lock()
    }

    /// Lets items be taken.
    pub(crate) fn open(&self) {
        self.queue.lock().open(Instant::now());
        self.wake.notify_one();
    }

    /// Ends every [`Work::next`], one after the other.
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

    /// Waits until fewer than `bound` keys are known.
    pub(crate) async fn room(&self, bound: usize) {
        while self.queue.lock().len() >= bound {
            self.room.notified().await;
        }
    }

    /// Waits for the next item; `None` when the queue is closed. `hold` as in [`Queue::take`].
    pub(crate) async fn next(&self, mut hold: impl FnMut(&Key, &mut C, bool) -> Option<Duration>) -> Option<Job<C>> {
        loop {
            let (taken, more) = {
                let mut queue = self.queue.lock();
                let taken = queue.take(Instant::now(), &mut hold);
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
        self.room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::item::Item;

    #[tokio::test(start_paused = true)]
    async fn who_fills_a_queue_can_wait_for_room() {
        let work: Work<Item> = Work::new();
        work.open();
        for name in ["a", "b"] {
            work.room(2).await;
            work.add(&Key::new("", "", name), Item::default());
        }
        let mut room = Box::pin(work.room(2));
        assert!(room.as_mut().now_or_never().is_none());
        let job = work.next(|_, _, _| None).await.unwrap();
        assert!(room.as_mut().now_or_never().is_none(), "what is in work counts");
        work.finish(job, Next::Done(None));
        room.await;
    }
}
