//! The way of batches into etcd.
//!
//! One task takes the waiting batches, drafts as many as fit into a transaction, and gives them to a free [`Lane`], which
//! proposes them. The transaction compares the last revision of every resource that the drafts depend on, and changes the
//! head and the lane's own key besides. Accepted, the batches are answered once the copy has the revision. Refused, the
//! copy waits for what it did not know, and the batches are drafted again.
//!
//! A refusal by the draft itself may be due to an old copy. So it is repeated on a copy that is known to be new enough,
//! and only then answered (`confirm`).
//!
//! # Transactions at the same time
//! [`LANES`] transactions are under way at a time, each in its lane. A batch that shares a resource with one of them, or
//! with a stored one that the copy lacks, would be refused: it waits, and so do later batches that share one with it
//! ([`Claims`]).
//!
//! # Large batches
//! A batch that no transaction can hold goes in parts (`large`), so it is not atomic. It is alone under way.
//!
//! # Bounds
//! [`MAX_WAITING`](limits::MAX_WAITING) batches wait; further callers wait for a place. A batch waits [`COMMIT_TIMEOUT`]
//! at most; after that its caller learns whether it was proposed. The copy may lack [`MAX_UNSEEN`] transactions; while it
//! lacks more, nothing is proposed.

mod claims;
mod lane;
mod large;
mod limits;
mod pending;
mod proposal;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use mortise_store::{
    SledBackend, StoreError,
    follower::{Draft, DraftedBatch, DraftedGrowth},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};

pub use self::limits::MAX_OPERATIONS;
pub(crate) use self::{
    claims::Claims,
    lane::Lane,
    pending::{Commits, Pending},
};
use self::{
    claims::MAX_UNSEEN,
    lane::End,
    limits::{COMMIT_TIMEOUT, MAX_TRANSACTION, draft_limits},
    proposal::Proposal,
};
use crate::{
    barrier::{Barrier, reached},
    keys::Keys,
    placement::Fence,
    record::Versions,
};

/// Transactions under way at a time.
pub(crate) const LANES: usize = 2;
/// Resources whose last change was a rewrite, of which the copy does not know the revision; the rest is asked again.
const MAX_REWRITTEN: usize = 4_096;

/// The task that proposes.
pub(crate) struct Committer {
    pub(crate) keys: Keys,
    pub(crate) store: Arc<SledBackend>,
    pub(crate) applied: watch::Receiver<i64>,
    pub(crate) barrier: Barrier,
    pub(crate) health: watch::Sender<mortise_store::Health>,
    /// Name of this server, for the head.
    pub(crate) server: String,
    /// Lanes without a transaction.
    pub(crate) free: Vec<Lane>,
    pub(crate) waiting: mpsc::UnboundedReceiver<Pending>,
    /// Entrance for batches that are proposed once more.
    pub(crate) again: mpsc::WeakUnboundedSender<Pending>,
    /// Transactions that are under way, or that the copy may not have yet.
    pub(crate) claims: Claims,
    /// Resources whose newest revision is that of a rewrite: their sequence, and this revision.
    pub(crate) rewritten: HashMap<Vec<u8>, (u64, i64)>,
    /// Reason why nothing is proposed any more, such as another server that uses the key of this one.
    pub(crate) usurped: Option<&'static str>,
}

/// A transaction that has ended, and its lane. The batches of a stored one are answered already.
struct Ended {
    lane: Lane,
    claim: u64,
    end: End,
    batches: Vec<Pending>,
}

impl Committer {
    /// Works until no entrance is left.
    pub(crate) async fn run(mut self) {
        let mut queue = VecDeque::new();
        let mut under_way = JoinSet::new();
        loop {
            while let Ok(pending) = self.waiting.try_recv() {
                queue.push_back(pending);
            }
            while !queue.is_empty() && self.begin(&mut queue, &mut under_way).await {}
            tokio::select! {
                pending = self.waiting.recv() => match pending {
                    Some(pending) => queue.push_back(pending),
                    None => return,
                },
                Some(ended) = under_way.join_next() => match ended {
                    Ok(ended) => self.finish(ended, &mut queue),
                    // A lane that is lost may have left its transaction's outcome open.
                    Err(_) => return,
                },
                // Batches may wait for it.
                Ok(()) = self.applied.changed(), if !queue.is_empty() => {}
            }
        }
    }

    /// Proposes the first batches of the queue that nothing under way holds back. Returns whether to try again at once.
    async fn begin(&mut self, queue: &mut VecDeque<Pending>, under_way: &mut JoinSet<Ended>) -> bool {
        if let Some(why) = self.usurped {
            queue.drain(..).for_each(|pending| pending.fail(StoreError::Poisoned(why.to_owned())));
            return false;
        }
        // Before the draft: what the copy has meanwhile is compared once more, which costs a round at most.
        let known = *self.applied.borrow_and_update();
        self.claims.forget(known);
        if queue.front().is_some_and(|pending| pending.is_large) {
            return under_way.is_empty() && self.begin_large(queue).await;
        }
        let Some(lane) = self.free.pop_if(|_| self.claims.len() < MAX_UNSEEN) else { return false };
        let mut taken = self.claims.take(queue);
        if taken.is_empty() {
            self.free.push(lane);
            return false;
        }
        let batches = taken.iter().map(|pending| pending.batch.clone()).collect();
        let limits = draft_limits(self.keys.versions, known);
        let draft = match self.store.draft(batches, limits, self.claims.growth()).await {
            Ok(draft) => draft,
            Err(error) => {
                let why = error.to_string();
                taken.into_iter().for_each(|pending| pending.fail(StoreError::Poisoned(why.clone())));
                self.free.push(lane);
                return true;
            }
        };
        let Draft { results, changes, reads, referrers, growth } = draft;
        let mut accepted = Vec::new();
        for result in results {
            let Some(pending) = taken.pop_front() else { break };
            match result {
                Ok(batch) if batch.has_changes => accepted.push((pending, batch)),
                _ => {
                    pending.wait_again();
                    self.confirm(pending);
                }
            }
        }
        put_back(taken, queue);
        if accepted.is_empty() {
            self.free.push(lane);
            return true;
        }
        let number = ulid::Ulid::generate().to_string();
        let mut fences: Vec<Fence> = Vec::new();
        for fence in accepted.iter().filter_map(|(pending, _)| pending.fence.as_ref()) {
            if !fences.contains(fence) {
                fences.push(fence.clone());
            }
        }
        let proposal = Proposal {
            keys: &self.keys,
            server: &self.server,
            own: lane.key(),
            known,
            rewritten: &self.rewritten,
            fences: &fences,
        };
        let transaction = proposal.transaction(&changes, &reads, &referrers, &number);
        if transaction.operations() > MAX_TRANSACTION {
            // References to many resources are touched besides. Each batch is proposed alone, in parts.
            let large = accepted.into_iter().map(|(pending, _)| pending.in_parts());
            put_back(large.collect(), queue);
            self.free.push(lane);
            return true;
        }
        let claim = self.claims.add(accepted.iter().map(|(pending, _)| pending.targets.clone()).collect(), growth);
        let (applied, versions) = (self.applied.clone(), self.keys.versions);
        under_way.spawn(async move {
            let mut lane = lane;
            let end = lane.propose(transaction, &number, &reads).await;
            let batches = match end {
                End::Stored(revision) => {
                    tokio::spawn(answer(revision, accepted, applied, versions));
                    Vec::new()
                }
                _ => accepted.into_iter().map(|(pending, _)| pending).collect(),
            };
            Ended { lane, claim, end, batches }
        });
        true
    }

    /// Stores the large batch at the front of the queue.
    async fn begin_large(&mut self, queue: &mut VecDeque<Pending>) -> bool {
        let (Some(mut lane), Some(pending)) = (self.free.pop(), queue.pop_front()) else { return false };
        self.large(&mut lane, pending).await;
        self.free.push(lane);
        true
    }

    /// Repeats or fails the batches of a transaction that is not stored.
    fn finish(&mut self, Ended { lane, claim, end, batches }: Ended, queue: &mut VecDeque<Pending>) {
        self.free.push(lane);
        match end {
            End::Stored(revision) => self.claims.stored(claim, revision),
            End::Refused(refusal) => {
                self.claims.remove(claim);
                self.note(&refusal);
                let (held, lost): (Vec<_>, Vec<_>) =
                    batches.into_iter().partition(|pending| refusal.is_held(pending.fence.as_ref()));
                put_back(held.into(), queue);
                lost.into_iter().for_each(Pending::fail_as_lost);
            }
            End::Failed(error) => {
                self.claims.remove(claim);
                let mut error = Some(error);
                for pending in batches {
                    pending.fail(repeated(&mut error));
                }
            }
            End::NotStored => {
                self.claims.remove(claim);
                put_back(batches.into(), queue);
            }
        }
    }

    /// Notes the findings of a refused transaction.
    fn note(&mut self, refusal: &lane::Refusal) {
        if let Some(why) = refusal.usurped {
            tracing::error!(why, "writes are refused");
            self.usurped = Some(why);
            self.health.send_modify(|health| health.poisoned = Some(why.to_owned()));
        }
        if self.rewritten.len() > MAX_REWRITTEN {
            self.rewritten.clear();
        }
        for (key, rewrite) in &refusal.rewrites {
            match rewrite {
                Some(rewrite) => self.rewritten.insert(key.clone(), *rewrite),
                None => self.rewritten.remove(key),
            };
        }
    }

    /// Judges a batch once more, on a copy that has everything from before. What is refused then, or changes nothing,
    /// is answered; else the batch is proposed.
    fn confirm(&self, pending: Pending) {
        let (barrier, store, again) = (self.barrier.clone(), self.store.clone(), self.again.clone());
        let (applied, versions) = (self.applied.clone(), self.keys.versions);
        tokio::spawn(async move {
            if let Err(error) = barrier.pass().await {
                return pending.fail(error);
            }
            let known = *applied.borrow();
            let batches = vec![pending.batch.clone()];
            let drafted = store.draft(batches, draft_limits(versions, known), DraftedGrowth::default()).await;
            match drafted.map(|draft| draft.results.into_iter().next()) {
                Ok(Some(Ok(batch))) if batch.has_changes => match again.upgrade() {
                    Some(again) => drop(again.send(pending)),
                    None => pending.fail(StoreError::Closed),
                },
                Ok(Some(Ok(batch))) => pending.answer(proposal::results(batch, |_| 0)),
                Ok(Some(Err(error))) | Err(error) => pending.fail(error),
                Ok(None) => pending.fail(StoreError::Closed),
            }
        });
    }
}

/// Answers the batches of a stored transaction once the copy has it.
async fn answer(
    revision: i64,
    accepted: Vec<(Pending, DraftedBatch)>,
    applied: watch::Receiver<i64>,
    versions: Versions,
) {
    let arrived = reached(&applied, revision, Instant::now() + COMMIT_TIMEOUT).await;
    for (pending, batch) in accepted {
        match &arrived {
            Ok(()) => pending.answer(proposal::results(batch, |place| versions.sequence(revision, place))),
            Err(error) => pending.fail(StoreError::OutcomeUnknown(error.to_string())),
        }
    }
}

/// Puts batches that are in no transaction back to the front of the queue, in their order.
fn put_back(batches: VecDeque<Pending>, queue: &mut VecDeque<Pending>) {
    for pending in batches.into_iter().rev() {
        pending.wait_again();
        queue.push_front(pending);
    }
}

/// Returns the error, and afterwards errors with its text.
fn repeated(error: &mut Option<StoreError>) -> StoreError {
    let copy = match error {
        Some(StoreError::SharedFull(why)) => StoreError::SharedFull(why.clone()),
        Some(StoreError::Unreachable(why)) => StoreError::Unreachable(why.clone()),
        _ => StoreError::Closed,
    };
    error.replace(copy).unwrap_or(StoreError::Closed)
}
