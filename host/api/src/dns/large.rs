//! Places and threads for large answers, so that small ones come meanwhile.

use std::sync::Arc;

use hickory_proto::op::ResponseCode;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
};

/// Small answers for each large one that is made at the same time. A large answer may take 20 ms of a processor, so
/// dozens of them at once would delay everything else.
const SMALL_FOR_LARGE: usize = 16;

/// Number of large answers at the same time, beside so many small ones.
pub(super) fn large_answers(queries: usize) -> usize {
    (queries / SMALL_FOR_LARGE).max(1)
}

/// The transport of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// The places for large answers over UDP. Over TCP, each answer is made on a thread of its own already.
pub(super) struct Large(Arc<Semaphore>);

/// The thread on which endpoints are decoded.
pub(super) enum Thread {
    /// The one of the query.
    This,
    /// Another one, with its place.
    Other(#[expect(dead_code, reason = "the place is held")] OwnedSemaphorePermit),
}

impl Large {
    pub(super) fn new(queries: usize) -> Self {
        Self(Arc::new(Semaphore::new(large_answers(queries))))
    }

    /// Returns the thread for an answer; `None` if all places are taken.
    pub(super) fn thread(&self, is_large: bool, transport: Transport) -> Option<Thread> {
        match transport {
            Transport::Udp if is_large => self.0.clone().try_acquire_owned().ok().map(Thread::Other),
            // A connection has a place and a thread already.
            Transport::Udp | Transport::Tcp => Some(Thread::This),
        }
    }
}

impl Thread {
    /// Does a piece of work on the thread.
    ///
    /// # Errors
    /// The code of the answer.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ResponseCode> + Send + 'static,
    ) -> Result<T, ResponseCode> {
        match self {
            Self::This => work(),
            Self::Other(_) => spawn_blocking(work).await.unwrap_or(Err(ResponseCode::ServFail)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram with a large answer has a place, or sends its client to TCP.
    #[tokio::test]
    async fn datagrams_with_large_answers_have_places_of_their_own() {
        let large = Large::new(32);
        let held = (large.thread(true, Transport::Udp), large.thread(true, Transport::Udp));
        assert!(matches!(held, (Some(Thread::Other(_)), Some(Thread::Other(_)))));
        assert!(large.thread(true, Transport::Udp).is_none());
        assert!(matches!(large.thread(false, Transport::Udp), Some(Thread::This)), "a small one needs none");
        assert!(matches!(large.thread(true, Transport::Tcp), Some(Thread::This)));
        drop(held);
        assert!(large.thread(true, Transport::Udp).is_some(), "places come back");
    }

    /// A large answer waits for the only other thread, which is busy; small ones come meanwhile.
    #[test]
    fn datagrams_with_large_answers_are_answered_on_other_threads() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let large = Large::new(16);
            let (release, taken) = std::sync::mpsc::channel::<()>();
            let taken = spawn_blocking(move || taken.recv());
            let thread = large.thread(true, Transport::Udp).unwrap();
            let mut answer = std::pin::pin!(thread.run(|| Ok(7)));
            assert!(futures::poll!(answer.as_mut()).is_pending());
            assert_eq!(large.thread(false, Transport::Udp).unwrap().run(|| Ok(5)).await, Ok(5));
            release.send(()).unwrap();
            assert_eq!(answer.await, Ok(7));
            taken.await.unwrap().unwrap();
        });
    }
}
