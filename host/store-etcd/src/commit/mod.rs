//! The way of batches into etcd.
//!
//! One task takes the waiting batches, drafts as many as fit into a transaction, and proposes them, one transaction at a
//! time. The transaction compares the last revision of every resource that the drafts depend on, and changes the head
//! and this server's own key besides. Accepted, the batches are answered once the copy has the revision. Refused, the
//! copy waits for what it did not know, and the batches are drafted again.
//!
//! A refusal by the draft itself may be due to an old copy. So it is repeated on a copy that is known to be new enough,
//! and only then answered (`confirm`).
//!
//! # Lost answers
//! The transaction compares the revision of this server's own key, and puts the transaction's number into it. After a
//! lost answer, the task puts another number under the same comparison: either that succeeds, and the lost transaction
//! never happened and never will, or the key tells its number. Nothing is guessed, and nothing else is proposed before.
//!
//! # Large batches
//! A batch that no transaction can hold goes in parts (`large`), so it is not atomic.
//!
//! # Bounds
//! [`MAX_WAITING`] batches wait; further callers wait for a place. A batch waits [`COMMIT_TIMEOUT`] at most; after that
//! its caller learns whether it was proposed.

mod large;
mod limits;
mod pending;
mod proposal;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use mortise_store::{
    ExpectedId, Health, SledBackend, StoreError,
    follower::{Draft, DraftedBatch, DraftedGrowth},
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep},
};

pub use self::limits::MAX_OPERATIONS;
pub(crate) use self::pending::{Commits, Pending};
use self::{
    limits::{COMMIT_TIMEOUT, MAX_TRANSACTION, draft_limits},
    proposal::Proposal,
};
use crate::{
    barrier::{Barrier, reached},
    client::{Client, Fault, RangeRequest, TxnResponse, response_op},
    keys::Keys,
    placement::Fence,
    planted,
};

/// Pause after a failed attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// Resources whose last change was a rewrite, of which the copy does not know the revision; the rest is asked again.
const MAX_REWRITTEN: usize = 4_096;

/// The task that proposes.
pub(crate) struct Committer {
    pub(crate) client: Arc<Client>,
    pub(crate) keys: Keys,
    pub(crate) store: Arc<SledBackend>,
    pub(crate) applied: watch::Receiver<i64>,
    pub(crate) barrier: Barrier,
    pub(crate) health: watch::Sender<Health>,
    /// Name of this server in its key.
    pub(crate) server: String,
    /// Revision of this server's key.
    pub(crate) own_revision: i64,
    pub(crate) waiting: mpsc::UnboundedReceiver<Pending>,
    /// Entrance for batches that are proposed once more.
    pub(crate) again: mpsc::WeakUnboundedSender<Pending>,
    /// Growth by transactions that the copy may not have yet, with their revisions.
    pub(crate) unseen: VecDeque<(i64, DraftedGrowth)>,
    /// Resources whose newest revision is that of a rewrite: their sequence, and this revision.
    pub(crate) rewritten: HashMap<Vec<u8>, (u64, i64)>,
    /// Reason why nothing is proposed any more, such as another server that uses the key of this one.
    pub(crate) usurped: Option<&'static str>,
}

/// End of a proposal.
enum Outcome {
    /// Stored in this revision.
    Accepted(i64),
    /// Refused: something had changed.
    Refused(TxnResponse),
    /// Failed for good: it will never be stored.
    Failed(StoreError),
    /// Unanswered.
    Lost(Fault),
}

impl Committer {
    /// Works until no entrance is left.
    pub(crate) async fn run(mut self) {
        let mut queue = VecDeque::new();
        loop {
            if queue.is_empty() {
                match self.waiting.recv().await {
                    Some(pending) => queue.push_back(pending),
                    None => return,
                }
            }
            while let Ok(pending) = self.waiting.try_recv() {
                queue.push_back(pending);
            }
            if let Err(fault) = self.round(&mut queue).await {
                tracing::warn!(%fault, "a transaction was not answered; its outcome is being found out");
            }
        }
    }

    /// Proposes the first batches of the queue.
    async fn round(&mut self, queue: &mut VecDeque<Pending>) -> Result<(), Fault> {
        if let Some(why) = self.usurped {
            queue.drain(..).for_each(|pending| pending.fail(StoreError::Poisoned(why.to_owned())));
            return Ok(());
        }
        if queue.front().is_some_and(|pending| pending.is_large) {
            let Some(pending) = queue.pop_front() else { return Ok(()) };
            self.large(pending).await;
            return Ok(());
        }
        let mut taken = take(queue);
        if taken.is_empty() {
            return Ok(());
        }
        let batches = taken.iter().map(|pending| pending.batch.clone()).collect();
        // Before the draft: what the copy has meanwhile is compared once more, which costs a round at most.
        let known = *self.applied.borrow();
        let limits = draft_limits(self.keys.versions, known);
        let unseen = self.unseen_growth(known);
        let draft = match self.store.draft(batches, limits, unseen).await {
            Ok(draft) => draft,
            Err(error) => {
                let why = error.to_string();
                taken.into_iter().for_each(|pending| pending.fail(StoreError::Poisoned(why.clone())));
                return Ok(());
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
            return Ok(());
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
            own_revision: self.own_revision,
            known,
            rewritten: &self.rewritten,
            fences: &fences,
        };
        let transaction = proposal.transaction(&changes, &reads, &referrers, &number);
        if transaction.operations() > MAX_TRANSACTION {
            // References to many resources are touched besides. Each batch is proposed alone, in parts.
            let large = accepted.into_iter().map(|(pending, _)| pending.in_parts());
            put_back(large.collect(), queue);
            return Ok(());
        }
        let outcome = self.propose(transaction).await;
        if let Some(revision) = self.conclude(outcome, accepted, &reads, queue, &number).await? {
            self.unseen.push_back((revision, growth));
        }
        Ok(())
    }

    /// Returns the growth by transactions behind the revision `known` of the copy. A draft that is refused for what the
    /// copy got meanwhile is repeated without it (`confirm`).
    fn unseen_growth(&mut self, known: i64) -> DraftedGrowth {
        while self.unseen.front().is_some_and(|(revision, _)| *revision <= known) {
            self.unseen.pop_front();
        }
        let mut sum = DraftedGrowth::default();
        self.unseen.iter().for_each(|(_, growth)| sum.extend(growth));
        sum
    }

    async fn propose(&mut self, transaction: crate::client::Transaction) -> Outcome {
        match self.client.txn(transaction.into_request()).await {
            Ok(answer) if answer.succeeded => {
                let revision = answer.header.map_or(0, |header| header.revision);
                self.own_revision = revision;
                metrics::counter!("mortise_etcd_transactions_total").increment(1);
                self.note_full(None);
                Outcome::Accepted(revision)
            }
            Ok(answer) => Outcome::Refused(answer),
            Err(fault) if fault.is_full() => {
                self.note_full(Some(&fault));
                Outcome::Failed(StoreError::SharedFull(fault.to_string()))
            }
            Err(fault) if fault.is_refusal() => Outcome::Failed(StoreError::Unreachable(fault.to_string())),
            Err(fault) => Outcome::Lost(fault),
        }
    }

    /// Notes whether etcd has space, and logs a change.
    fn note_full(&self, fault: Option<&Fault>) {
        let full = fault.map(|fault| format!("etcd is over its quota: {fault}"));
        let changed = self.health.send_if_modified(|health| {
            let changed = health.full != full;
            health.full.clone_from(&full);
            changed
        });
        match (changed, full) {
            (true, Some(why)) => tracing::error!(why, "writes are refused; compact and defragment etcd"),
            (true, None) => tracing::info!("etcd has space again"),
            _ => {}
        }
    }

    /// Answers, repeats or fails the batches of a proposal. Returns the revision if they are stored.
    async fn conclude(
        &mut self,
        outcome: Outcome,
        accepted: Vec<(Pending, DraftedBatch)>,
        reads: &[mortise_store::follower::DraftedRead],
        queue: &mut VecDeque<Pending>,
        number: &str,
    ) -> Result<Option<i64>, Fault> {
        match outcome {
            Outcome::Accepted(revision) => {
                self.answer(revision, accepted);
                return Ok(Some(revision));
            }
            Outcome::Refused(answer) => {
                self.learn(&answer, reads).await;
                metrics::counter!("mortise_etcd_refused_total").increment(1);
                let (held, lost): (Vec<_>, Vec<_>) = accepted
                    .into_iter()
                    .map(|(pending, _)| pending)
                    .partition(|pending| is_held(pending.fence.as_ref(), &answer));
                put_back(held.into(), queue);
                lost.into_iter().for_each(Pending::fail_as_lost);
            }
            Outcome::Failed(error) => {
                let mut error = Some(error);
                for (pending, _) in accepted {
                    pending.fail(repeated(&mut error));
                }
            }
            Outcome::Lost(fault) if planted::happens(planted::Fault::GuessedOutcome) => {
                self.own_revision = own_key(&self.client, &self.keys, &self.server).await?;
                put_back(accepted.into_iter().map(|(pending, _)| pending).collect(), queue);
                return Err(fault);
            }
            Outcome::Lost(fault) => match self.found_out(number).await {
                Some(revision) => {
                    self.answer(revision, accepted);
                    return Ok(Some(revision));
                }
                None => {
                    put_back(accepted.into_iter().map(|(pending, _)| pending).collect(), queue);
                    return Err(fault);
                }
            },
        }
        Ok(None)
    }

    /// As `find_out`, and counts the lost answer.
    pub(super) async fn found_out(&mut self, number: &str) -> Option<i64> {
        metrics::counter!("mortise_etcd_lost_answers_total").increment(1);
        self.find_out(number).await
    }

    /// Finds out whether a transaction without an answer was stored, and in which revision; afterwards it never will be.
    /// Nothing else can be proposed before, so this goes on until etcd answers.
    async fn find_out(&mut self, number: &str) -> Option<i64> {
        let own = self.keys.server(&self.server);
        loop {
            let mut fence = crate::client::Transaction::default();
            fence.expect_revision(own.clone(), self.own_revision);
            fence.put(own.clone(), ulid::Ulid::generate().to_string().into_bytes());
            fence.tell_if_refused(own.clone(), false);
            match self.client.txn(fence.into_request()).await {
                Ok(answer) if answer.succeeded => {
                    self.own_revision = answer.header.map_or(0, |header| header.revision);
                    return None;
                }
                Ok(answer) => {
                    let found = shown(&answer).next();
                    let (value, revision) = found.map_or((Vec::new(), 0), |kv| (kv.value.to_vec(), kv.mod_revision));
                    // An own fence whose answer was lost moves the key, too.
                    self.own_revision = revision;
                    if value == number.as_bytes() {
                        return Some(revision);
                    }
                }
                Err(_) => sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// Waits for what a refused transaction did not know.
    async fn learn(&mut self, answer: &TxnResponse, reads: &[mortise_store::follower::DraftedRead]) {
        let (head, own) = (self.keys.head(), self.keys.server(&self.server));
        let newest = shown(answer).find(|kv| kv.key == head).map_or(0, |kv| kv.mod_revision);
        let revision = answer.header.as_ref().map_or(i64::MAX, |header| header.revision);
        match shown(answer).find(|kv| kv.key == own).map_or(0, |own| own.mod_revision) {
            // The cluster was restored from an earlier state.
            _ if revision < self.own_revision => self.refuse_all(
                "etcd is at an earlier revision than this server has seen; restart mortise, which then reads everything again",
            ),
            // Removed by hand.
            0 => self.own_revision = 0,
            found if found != self.own_revision => {
                self.refuse_all(
                    "another server uses the name of this one: data_dir is a copy of that server's, or the reverse; stop one, \
                     remove the directory copy in its data_dir, and start it again",
                );
            }
            _ => {}
        }
        let arrived = reached(&self.applied, newest, Instant::now() + COMMIT_TIMEOUT).await;
        if arrived.is_err() {
            return;
        }
        if self.rewritten.len() > MAX_REWRITTEN {
            self.rewritten.clear();
        }
        for read in reads {
            let Some(sequence) = read.sequence else { continue };
            let key = self.keys.resource(&ExpectedId { uid: String::new(), ..read.id.clone() });
            let found = shown(answer).find(|kv| kv.key == key).map(|kv| kv.mod_revision);
            match found {
                // The copy has this revision, too: if the sequence is still the same, a rewrite made it.
                Some(found) if found != self.keys.versions.revision(sequence) => {
                    self.rewritten.insert(key, (sequence, found))
                }
                _ => self.rewritten.remove(&key),
            };
        }
    }

    /// Refuses everything from now on.
    fn refuse_all(&mut self, why: &'static str) {
        tracing::error!(why, "writes are refused");
        self.usurped = Some(why);
        self.health.send_modify(|health| health.poisoned = Some(why.to_owned()));
    }

    /// Answers the batches of a stored transaction once the copy has it.
    fn answer(&self, revision: i64, accepted: Vec<(Pending, DraftedBatch)>) {
        let (applied, versions) = (self.applied.clone(), self.keys.versions);
        tokio::spawn(async move {
            let arrived = reached(&applied, revision, Instant::now() + COMMIT_TIMEOUT).await;
            for (pending, batch) in accepted {
                match &arrived {
                    Ok(()) => pending.answer(proposal::results(batch, |place| versions.sequence(revision, place))),
                    Err(error) => pending.fail(StoreError::OutcomeUnknown(error.to_string())),
                }
            }
        });
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

/// Returns the keys in the answer of a refused transaction.
fn shown(answer: &TxnResponse) -> impl Iterator<Item = &crate::client::KeyValue> {
    answer.responses.iter().flat_map(|response| match &response.response {
        Some(response_op::Response::ResponseRange(range)) => range.kvs.as_slice(),
        _ => &[],
    })
}

/// Takes the first batches that a draft may look at. From here on a caller that gives up learns that its batch may be
/// stored.
fn take(queue: &mut VecDeque<Pending>) -> VecDeque<Pending> {
    let mut taken = VecDeque::new();
    while taken.len() < MAX_OPERATIONS && queue.front().is_some_and(|pending| !pending.is_large) {
        taken.extend(queue.pop_front().filter(Pending::begin));
    }
    taken
}

/// Puts batches that are in no transaction back to the front of the queue, in their order.
fn put_back(batches: VecDeque<Pending>, queue: &mut VecDeque<Pending>) {
    for pending in batches.into_iter().rev() {
        pending.wait_again();
        queue.push_front(pending);
    }
}

/// Returns whether the condition of a batch holds, by the answer of its refused transaction.
fn is_held(fence: Option<&Fence>, answer: &TxnResponse) -> bool {
    let Some(fence) = fence else { return true };
    shown(answer).any(|kv| kv.key == fence.key && kv.create_revision == fence.made_at)
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

/// Makes this server's key, or takes it over from an earlier run. Returns its revision.
pub(crate) async fn own_key(client: &Client, keys: &Keys, server: &str) -> Result<i64, Fault> {
    let own = keys.server(server);
    loop {
        let found = client.range(RangeRequest { key: own.clone().into(), ..RangeRequest::default() }).await?;
        let revision = found.kvs.first().map_or(0, |kv| kv.mod_revision);
        let mut taking = crate::client::Transaction::default();
        taking.expect_revision(own.clone(), revision);
        taking.put(own.clone(), ulid::Ulid::generate().to_string().into_bytes());
        let answer = client.txn(taking.into_request()).await?;
        // A transaction of the earlier run may arrive late; after this it is refused.
        if answer.succeeded {
            return Ok(answer.header.map_or(0, |header| header.revision));
        }
    }
}
