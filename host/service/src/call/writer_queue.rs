//! Queues of the writers of one resource: blanket writes, statuses, updates and deletions that met another writer.
//!
//! # Contract
//! A first attempt takes no turn, and costs nothing. A request that lost against another one waits for the turn of its
//! resource, and keeps the turn until it ends; while requests wait, further ones queue behind them before they commit.
//! So only requests with a version, and those already at their commit, can come before the holder of the turn. Callers
//! take turns ([`FairPool`]). Dropping a waiting request leaves the queue.
//!
//! A deletion that clears references of other resources, and lost against their writers, waits for the turns of all of
//! them ([`WriterQueues::wait_for_all`]).
//!
//! # No deadlocks
//! A request takes the turn while it holds no instance of a plugin. With the turn it may wait for one, since a hook
//! writes nothing. A request with a turn waits for no other turn, except in the order in which all such requests wait.
//!
//! # Limits
//! [`MAX_WAITING`] requests wait for one resource, for [`MAX_WAIT`] each. A queue exists while a request needs it.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mortise_resource::{Code, Error, IdRef, pb};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::{FairPool, NoShare, QueueKey, Share, Source};

/// Requests that wait for one resource.
const MAX_WAITING: usize = 512;

/// Turns of one request.
const MAX_TURNS: usize = 64;

/// Longest wait for the turn of a resource, and for several turns together.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The queues of all resources with contention. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct WriterQueues(Arc<Queues>);

#[derive(Default)]
struct Queues {
    by_resource: Mutex<HashMap<Source, Queue>>,
    /// Number of the queues, so that a write without contention takes no lock.
    count: AtomicUsize,
}

struct Queue {
    turn: FairPool,
    /// Requests that hold the turn or wait for it.
    members: usize,
}

/// The turn of a resource. Dropping it lets the next request in.
pub(crate) struct WriterTurn {
    /// Dropped first: the next member gets the share.
    _share: Share,
    _member: Member,
}

/// Membership in the queue of a resource.
struct Member {
    queues: Arc<Queues>,
    resource: Source,
}

impl WriterQueues {
    /// Returns the key of a resource. Two resources share a queue with a chance of 1 in 2^64.
    pub(crate) fn key(id: &pb::Id) -> Source {
        let IdRef { group, kind, partition, namespace, name, .. } = IdRef::from(id);
        Source::from_key([group, kind, partition, namespace, name])
    }

    /// Whether requests wait for the turn of a resource, or one holds the turn.
    pub(super) fn is_contended(&self, id: &pb::Id) -> bool {
        self.0.count.load(Ordering::Acquire) > 0 && self.0.by_resource.lock().contains_key(&Self::key(id))
    }

    /// Waits for the turn of a resource.
    ///
    /// # Errors
    /// `Aborted`: the queue is full, or the wait took too long.
    pub(super) async fn wait(&self, resource: Source, caller: QueueKey) -> Result<WriterTurn, Error> {
        let (member, pool) = self.join(resource);
        match timeout(MAX_WAIT, pool.acquire(caller, 1)).await {
            Ok(Ok(share)) => Ok(WriterTurn { _share: share, _member: member }),
            Ok(Err(NoShare::QueueFull | NoShare::TooMuch)) => {
                Err(contention(&format!("{MAX_WAITING} other requests wait to write it")))
            }
            Err(_) => Err(too_slow()),
        }
    }

    /// Waits for the turns of several resources. The caller has no turn: two such requests wait in the same order, so that
    /// neither waits for the other. Of more than [`MAX_TURNS`] resources, the rest is left out.
    ///
    /// # Errors
    /// `Aborted`: a queue is full, or the wait took too long.
    pub(crate) async fn wait_for_all(
        &self,
        resources: impl Iterator<Item = Source>,
        caller: QueueKey,
    ) -> Result<Vec<WriterTurn>, Error> {
        // Each once: a second turn of a queue would wait for the first.
        let resources: BTreeSet<Source> = resources.take(MAX_TURNS).collect();
        let mut turns = Vec::with_capacity(resources.len());
        let all = async {
            for resource in resources {
                turns.push(self.wait(resource, caller.clone()).await?);
            }
            Ok(turns)
        };
        timeout(MAX_WAIT, all).await.unwrap_or_else(|_| Err(too_slow()))
    }

    /// Whether any resource has a queue.
    #[cfg(test)]
    pub(crate) fn has_queues(&self) -> bool {
        self.0.count.load(Ordering::Acquire) > 0 || !self.0.by_resource.lock().is_empty()
    }

    fn join(&self, resource: Source) -> (Member, FairPool) {
        let mut queues = self.0.by_resource.lock();
        let queue = queues.entry(resource).or_insert_with(|| {
            self.0.count.fetch_add(1, Ordering::Release);
            Queue { turn: FairPool::new(1, MAX_WAITING), members: 0 }
        });
        queue.members += 1;
        (Member { queues: self.0.clone(), resource }, queue.turn.clone())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut queues = self.queues.by_resource.lock();
        if let Entry::Occupied(mut queue) = queues.entry(self.resource) {
            queue.get_mut().members -= 1;
            if queue.get().members == 0 {
                queue.remove();
                self.queues.count.fetch_sub(1, Ordering::Release);
            }
        }
    }
}

fn too_slow() -> Error {
    contention(&format!("the requests before this one took longer than {MAX_WAIT:?}"))
}

/// Error of a request without a version that other writers of the resource kept from its commit.
pub(super) fn contention(why: &str) -> Error {
    Error::new(Code::Aborted, format!("too many writers of this resource at once: {why}; try again later"))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn caller(number: u64) -> QueueKey {
        let source = Source::of_number(number);
        QueueKey { holder: source, connection: source, is_known: true, reader: None }
    }

    fn id(name: &str) -> pb::Id {
        pb::Id { name: name.into(), ..pb::Id::default() }
    }

    fn resource(name: &str) -> Source {
        WriterQueues::key(&id(name))
    }

    #[tokio::test]
    async fn one_request_has_the_turn_of_a_resource_and_a_queue_goes_with_its_last_member() {
        let queues = WriterQueues::default();
        let (a, b) = (resource("a"), resource("b"));
        assert!(!queues.is_contended(&id("a")));
        let first = queues.wait(a, caller(1)).await.unwrap();
        assert!(queues.is_contended(&id("a")) && !queues.is_contended(&id("b")));
        let other = queues.wait(b, caller(1)).now_or_never().expect("another resource is free").unwrap();
        let mut second = Box::pin(queues.wait(a, caller(2)));
        assert!(futures::poll!(second.as_mut()).is_pending());
        drop(first);
        drop(second.await.unwrap());
        drop(other);
        assert!(!queues.is_contended(&id("a")) && !queues.is_contended(&id("b")));
        assert_eq!((queues.0.count.load(Ordering::SeqCst), queues.0.by_resource.lock().len()), (0, 0));
    }

    #[tokio::test]
    async fn two_requests_for_the_same_turns_in_other_orders_do_not_wait_for_each_other() {
        let queues = WriterQueues::default();
        let all = ["a", "b", "c", "a"].map(resource);
        let first = queues.wait_for_all(all.into_iter(), caller(1)).now_or_never().expect("all are free").unwrap();
        assert_eq!(first.len(), 3);
        let mut backwards = Box::pin(queues.wait_for_all(all.into_iter().rev(), caller(2)));
        let mut forwards = Box::pin(queues.wait_for_all(all.into_iter(), caller(3)));
        assert!(futures::poll!(backwards.as_mut()).is_pending());
        assert!(futures::poll!(forwards.as_mut()).is_pending());
        drop(first);
        assert!(futures::poll!(forwards.as_mut()).is_pending());
        let second = backwards.now_or_never().expect("it was first in each queue").unwrap();
        drop(second);
        drop(forwards.now_or_never().expect("it was second in each queue").unwrap());
        assert!(!queues.has_queues());
    }

    #[tokio::test]
    async fn a_request_that_is_given_up_leaves_the_queue() {
        let queues = WriterQueues::default();
        let first = queues.wait(resource("a"), caller(1)).await.unwrap();
        {
            let mut gone = Box::pin(queues.wait(resource("a"), caller(1)));
            assert!(futures::poll!(gone.as_mut()).is_pending());
        }
        drop(first);
        assert!(!queues.is_contended(&id("a")));
    }

    #[tokio::test]
    async fn the_queue_is_bounded_and_says_so() {
        let queues = WriterQueues::default();
        let _first = queues.wait(resource("a"), caller(1)).await.unwrap();
        let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(queues.wait(resource("a"), caller(1)))).collect();
        for waiter in &mut waiting {
            assert!(futures::poll!(waiter.as_mut()).is_pending());
        }
        let refused = queues.wait(resource("a"), caller(2)).now_or_never().expect("at once").err().unwrap();
        let text = "too many writers of this resource at once: 512 other requests wait to write it; try again later";
        assert_eq!((refused.code, refused.message.as_str()), (Code::Aborted, text));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends() {
        let queues = WriterQueues::default();
        let _first = queues.wait(resource("a"), caller(1)).await.unwrap();
        let late = queues.wait(resource("a"), caller(2)).await.err().unwrap();
        assert!(late.message.contains("longer than 30s"), "{}", late.message);
    }
}
