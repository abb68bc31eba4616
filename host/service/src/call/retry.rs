//! Retries: a request without a version hides conflicts with other writers by trying again; one with a version does
//! not.
//!
//! After its first conflict a request waits for the turn of the resource ([`WriterQueues`]), and keeps the turn. With
//! the turn it tries again at once: each further conflict is the commit of a request that has a version or that was at
//! its commit already. There are at most [`MAX_ATTEMPTS`].

use mortise_resource::{Error, pb};

use super::{
    caller::Caller,
    writer_queue::{WriterQueues, WriterTurn, contention},
};

/// Attempts of one request.
const MAX_ATTEMPTS: u32 = 64;

/// The failure of one attempt.
pub(crate) enum Failure {
    /// A concurrent change came first; another attempt may succeed.
    Conflict(Error),
    /// Another attempt would fail too.
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// The attempts of one request, and its turn after a conflict.
pub(crate) struct Retry<'r> {
    /// The queue of the resource; `None` for a request whose first failure is final.
    queue: Option<QueuePlace<'r>>,
    turn: Option<WriterTurn>,
    attempts: u32,
}

/// The place of a request: the resource, and the caller among its other writers. Their keys are made at a conflict.
struct QueuePlace<'r> {
    queues: &'r WriterQueues,
    id: &'r pb::Id,
    caller: &'r Caller,
}

impl<'r> Retry<'r> {
    /// Makes the attempts of a request about a resource. `version` is the version that the request names.
    pub(crate) fn new(queues: &'r WriterQueues, caller: &'r Caller, id: &'r pb::Id, version: &str) -> Self {
        let queue = version.is_empty().then_some(QueuePlace { queues, id, caller });
        Self { queue, ..Self::once() }
    }

    /// Makes the attempt of a request that does not try again.
    pub(crate) fn once() -> Self {
        Self { queue: None, turn: None, attempts: 0 }
    }

    /// Whether other requests wait for the turn of the resource, so that this one has to queue before its commit.
    pub(crate) fn must_queue(&self) -> bool {
        self.turn.is_none() && self.queue.as_ref().is_some_and(|queue| queue.queues.is_contended(queue.id))
    }

    /// Waits for the turn, if other requests wait for it.
    ///
    /// # Errors
    /// `Aborted`: too many requests wait, or the wait takes too long.
    pub(crate) async fn queue(&mut self) -> Result<(), Error> {
        if self.must_queue() {
            self.take_turn().await?;
        }
        Ok(())
    }

    /// Gives up the turn, for a request that waits for the turns of several resources.
    pub(crate) fn give_up_turn(&mut self) {
        self.turn = None;
    }

    /// Waits for the turn after a failed attempt.
    ///
    /// # Errors
    /// The failure, when it is final; `Aborted` as for [`Self::queue`], or when the attempts are used up.
    pub(crate) async fn after(&mut self, failure: Failure) -> Result<(), Error> {
        let error = match failure {
            Failure::Final(error) => return Err(error),
            Failure::Conflict(error) => error,
        };
        self.attempts += 1;
        if let Some(queue) = &self.queue {
            queue.caller.commit.reset();
        }
        match (&self.queue, &self.turn) {
            (None, _) => Err(error),
            (Some(_), None) => self.take_turn().await,
            (Some(_), Some(_)) if self.attempts < MAX_ATTEMPTS => Ok(()),
            _ => Err(contention(&format!("one of them came first in each of {MAX_ATTEMPTS} attempts"))),
        }
    }

    async fn take_turn(&mut self) -> Result<(), Error> {
        if let Some(QueuePlace { queues, id, caller }) = &self.queue {
            metrics::counter!("mortise_write_conflicts_total").increment(1);
            self.turn = Some(queues.wait(WriterQueues::key(id), caller.queue_key()).await?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mortise_resource::Code;
    use mortise_store::Consistency;

    use super::*;

    fn anyone() -> Caller {
        Caller::host(Consistency::Eventual)
    }

    fn conflict() -> Failure {
        Failure::Conflict(Error::internal("the given version doesn't match"))
    }

    #[tokio::test]
    async fn a_request_with_a_version_tries_once_and_waits_for_nobody() {
        let queues = WriterQueues::default();
        let (caller, id) = (anyone(), pb::Id::default());
        let mut first = Retry::new(&queues, &caller, &id, "");
        first.after(conflict()).await.unwrap();
        let mut conditional = Retry::new(&queues, &caller, &id, "7");
        assert!(!conditional.must_queue());
        let failed = conditional.after(conflict()).await.unwrap_err();
        assert_eq!(failed.message, "the given version doesn't match");
    }

    #[tokio::test]
    async fn the_second_queues_behind_the_first_before_it_commits() {
        let queues = WriterQueues::default();
        let (caller, id) = (anyone(), pb::Id::default());
        let [mut first, mut second] = [(), ()].map(|()| Retry::new(&queues, &caller, &id, ""));
        assert!(!first.must_queue());
        first.after(conflict()).await.unwrap();
        assert!(second.must_queue() && !first.must_queue());
        let mut waiting = Box::pin(second.queue());
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(first);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn attempts_are_bounded_and_the_error_names_contention() {
        let queues = WriterQueues::default();
        let (caller, id) = (anyone(), pb::Id::default());
        let mut retry = Retry::new(&queues, &caller, &id, "");
        for _ in 1..MAX_ATTEMPTS {
            retry.after(conflict()).await.unwrap();
        }
        let failed = retry.after(conflict()).await.unwrap_err();
        let text = "too many writers of this resource at once: one of them came first in each of 64 attempts; try \
                    again later";
        assert_eq!((failed.code, failed.message.as_str()), (Code::Aborted, text));
        drop(retry);
        assert!(!queues.is_contended(&id));
    }
}
