//! Batches that wait for their transactions.

use std::{
    hash::RandomState,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use mortise_resource::EncodedResource;
use mortise_store::{Batch, StoreError};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::{Instant, timeout_at},
};

use super::{
    claims::Targets,
    limits::{COMMIT_TIMEOUT, MAX_WAITING, is_large},
};
use crate::placement::Fence;

/// Stored resources after a batch, for each mutation.
pub(crate) type Answers = Vec<Option<EncodedResource>>;

/// Progress of a batch, which its caller may give up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Progress {
    /// In no transaction.
    Waits,
    /// In a transaction whose outcome is unknown.
    Proposed,
    /// Given up before it was proposed.
    GivenUp,
}

/// A batch that waits.
pub(crate) struct Pending {
    pub(crate) batch: Batch,
    /// Whether the batch goes in parts.
    pub(crate) is_large: bool,
    /// Condition of work that one server does at a time.
    pub(crate) fence: Option<Fence>,
    /// Resources that the batch changes, and those that it depends on.
    pub(super) targets: Arc<Targets>,
    progress: Arc<AtomicU8>,
    reply: oneshot::Sender<Result<Answers, StoreError>>,
    _place: OwnedSemaphorePermit,
}

impl Pending {
    /// Notes that the batch may be in a transaction. Returns false if its caller has given it up.
    pub(crate) fn begin(&self) -> bool {
        self.change(Progress::Waits, Progress::Proposed)
    }

    /// Notes that the batch is in no transaction again.
    pub(crate) fn wait_again(&self) {
        self.change(Progress::Proposed, Progress::Waits);
    }

    /// Makes the batch go in parts.
    pub(crate) fn in_parts(self) -> Self {
        Self { is_large: true, ..self }
    }

    pub(crate) fn answer(self, answers: Answers) {
        // Without a receiver the caller is gone; the same below.
        self.reply.send(Ok(answers)).ok();
    }

    pub(crate) fn fail(self, error: StoreError) {
        if let StoreError::QuotaExceeded(refusal) = &error {
            refusal.count();
        }
        self.reply.send(Err(error)).ok();
    }

    /// Fails, since another server does the work now.
    pub(crate) fn fail_as_lost(self) {
        let name = self.batch.held.as_deref().unwrap_or_default().to_owned();
        self.fail(StoreError::NotHeld(name));
    }

    fn change(&self, from: Progress, to: Progress) -> bool {
        self.progress.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Entrance for batches.
#[derive(Clone)]
pub(crate) struct Commits {
    entrance: mpsc::UnboundedSender<Pending>,
    places: Arc<Semaphore>,
    hasher: RandomState,
}

impl Commits {
    /// Makes an entrance, and the other end.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Pending>) {
        let (entrance, waiting) = mpsc::unbounded_channel();
        (Self { entrance, places: Arc::new(Semaphore::new(MAX_WAITING)), hasher: RandomState::new() }, waiting)
    }

    /// Returns an entrance that does not keep the task alive.
    pub(crate) fn again(&self) -> mpsc::WeakUnboundedSender<Pending> {
        self.entrance.downgrade()
    }

    /// Refuses further batches.
    pub(crate) fn close(&self) {
        self.places.close();
    }

    /// Waits for a place, and then for the outcome. The batch goes on if the caller goes away.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] after [`COMMIT_TIMEOUT`] if the batch was not proposed, and then never will be;
    /// [`StoreError::OutcomeUnknown`] if it was.
    pub(crate) async fn commit(&self, batch: Batch, fence: Option<Fence>) -> Result<Answers, StoreError> {
        let deadline = Instant::now() + COMMIT_TIMEOUT;
        let late = || "the write was not answered in time".to_owned();
        let place = timeout_at(deadline, self.places.clone().acquire_owned()).await;
        let place = place.map_err(|_| StoreError::Unreachable(late()))?.map_err(|_| StoreError::Closed)?;
        let progress = Arc::new(AtomicU8::new(Progress::Waits as u8));
        let (reply, answer) = oneshot::channel();
        let (is_large, targets) = (is_large(&batch), Arc::new(Targets::of(&batch, &self.hasher)));
        let pending = Pending { batch, is_large, fence, targets, progress: progress.clone(), reply, _place: place };
        self.entrance.send(pending).map_err(|_| StoreError::Closed)?;
        match timeout_at(deadline, answer).await {
            Ok(answer) => answer.unwrap_or(Err(StoreError::Closed)),
            Err(_) => {
                let waits = (Progress::Waits as u8, Progress::GivenUp as u8);
                let given_up = progress.compare_exchange(waits.0, waits.1, Ordering::AcqRel, Ordering::Acquire);
                Err(match given_up {
                    Ok(_) => StoreError::Unreachable(late()),
                    Err(_) => StoreError::OutcomeUnknown(late()),
                })
            }
        }
    }
}
