//! A lane: one transaction under way at a time, with a key of its own in etcd.
//!
//! # Lost answers
//! The transaction compares the revision of the lane's key, and puts the transaction's number into it. After a lost
//! answer, the lane puts another number under the same comparison: either that succeeds, and the lost transaction never
//! happened and never will, or the key tells its number. Nothing is guessed, and the lane proposes nothing else before.

use std::{sync::Arc, time::Duration};

use mortise_store::{ExpectedId, Health, StoreError, follower::DraftedRead};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::limits::COMMIT_TIMEOUT;
use crate::{
    barrier::reached,
    client::{Client, Fault, RangeRequest, Transaction, TxnResponse, response_op},
    keys::Keys,
    placement::Fence,
    planted,
};

/// Pause after a failed attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Transactions of one server, one after another.
pub(crate) struct Lane {
    client: Arc<Client>,
    keys: Keys,
    applied: watch::Receiver<i64>,
    health: watch::Sender<Health>,
    /// Key of the lane.
    key: Vec<u8>,
    /// Revision of that key.
    revision: i64,
}

/// End of a transaction.
pub(super) enum End {
    /// Stored in this revision.
    Stored(i64),
    /// Not stored: something had changed. The copy has it now.
    Refused(Refusal),
    /// Not stored, as was found out after its answer was lost.
    NotStored,
    /// Failed for good: it will never be stored.
    Failed(StoreError),
}

/// Sequence of a resource, and the revision of the rewrite that kept it.
pub(super) type Rewrite = (u64, i64);

/// Findings of a refused transaction.
pub(super) struct Refusal {
    answer: TxnResponse,
    /// Reason why nothing may be proposed any more.
    pub(super) usurped: Option<&'static str>,
    /// Resources with their last rewrite; `None` if their last change was another one.
    pub(super) rewrites: Vec<(Vec<u8>, Option<Rewrite>)>,
}

impl Refusal {
    /// Returns whether the condition of a batch held.
    pub(super) fn is_held(&self, fence: Option<&Fence>) -> bool {
        let Some(fence) = fence else { return true };
        shown(&self.answer).any(|kv| kv.key == fence.key && kv.create_revision == fence.made_at)
    }
}

impl Lane {
    /// Makes a lane's key, or takes it over from an earlier run.
    ///
    /// # Errors
    /// Etcd does not answer.
    pub(crate) async fn open(
        (client, keys): (Arc<Client>, Keys),
        key: Vec<u8>,
        applied: watch::Receiver<i64>,
        health: watch::Sender<Health>,
    ) -> Result<Self, Fault> {
        let revision = take_over(&client, &key).await?;
        Ok(Self { client, keys, applied, health, key, revision })
    }

    /// Returns the lane's key, and its revision.
    pub(super) fn key(&self) -> (&[u8], i64) {
        (&self.key, self.revision)
    }

    /// Proposes a transaction, and finds out its outcome. `number` is the number in it, and `reads` has the resources that
    /// it compares.
    pub(super) async fn propose(&mut self, transaction: Transaction, number: &str, reads: &[DraftedRead]) -> End {
        match self.client.txn(transaction.into_request()).await {
            Ok(answer) if answer.succeeded => {
                let revision = answer.header.map_or(0, |header| header.revision);
                self.revision = revision;
                metrics::counter!("mortise_etcd_transactions_total").increment(1);
                self.note_full(None);
                End::Stored(revision)
            }
            Ok(answer) => {
                metrics::counter!("mortise_etcd_refused_total").increment(1);
                End::Refused(self.learn(answer, reads).await)
            }
            Err(fault) if fault.is_full() => {
                self.note_full(Some(&fault));
                End::Failed(StoreError::SharedFull(fault.to_string()))
            }
            Err(fault) if fault.is_refusal() => End::Failed(StoreError::Unreachable(fault.to_string())),
            Err(fault) => {
                tracing::warn!(%fault, "a transaction was not answered; its outcome is being found out");
                metrics::counter!("mortise_etcd_lost_answers_total").increment(1);
                match self.find_out(number).await {
                    Some(revision) => End::Stored(revision),
                    None => End::NotStored,
                }
            }
        }
    }

    /// Finds out whether a transaction without an answer was stored, and in which revision; afterwards it never will be.
    /// Goes on until etcd answers.
    async fn find_out(&mut self, number: &str) -> Option<i64> {
        loop {
            if planted::happens(planted::Fault::GuessedOutcome) {
                match take_over(&self.client, &self.key).await {
                    Ok(revision) => {
                        self.revision = revision;
                        return None;
                    }
                    Err(_) => sleep(RETRY_PAUSE).await,
                }
                continue;
            }
            let mut fence = Transaction::default();
            fence.expect_revision(self.key.clone(), self.revision);
            fence.put(self.key.clone(), ulid::Ulid::generate().to_string().into_bytes());
            fence.tell_if_refused(self.key.clone(), false);
            match self.client.txn(fence.into_request()).await {
                Ok(answer) if answer.succeeded => {
                    self.revision = answer.header.map_or(0, |header| header.revision);
                    return None;
                }
                Ok(answer) => {
                    let found = shown(&answer).next();
                    let (value, revision) = found.map_or((Vec::new(), 0), |kv| (kv.value.to_vec(), kv.mod_revision));
                    // An own fence whose answer was lost moves the key, too.
                    self.revision = revision;
                    if value == number.as_bytes() {
                        return Some(revision);
                    }
                }
                Err(_) => sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// Waits for what a refused transaction did not know.
    async fn learn(&mut self, answer: TxnResponse, reads: &[DraftedRead]) -> Refusal {
        let head = self.keys.head();
        let newest = shown(&answer).find(|kv| kv.key == head).map_or(0, |kv| kv.mod_revision);
        let revision = answer.header.as_ref().map_or(i64::MAX, |header| header.revision);
        let usurped = match shown(&answer).find(|kv| kv.key == self.key).map_or(0, |own| own.mod_revision) {
            // The cluster was restored from an earlier state.
            _ if revision < self.revision => Some(
                "etcd is at an earlier revision than this server has seen; restart mortise, which then reads everything again",
            ),
            // Removed by hand.
            0 => {
                self.revision = 0;
                None
            }
            found if found != self.revision => Some(
                "another server uses the name of this one: data_dir is a copy of that server's, or the reverse; stop one, \
                 remove the directory copy in its data_dir, and start it again",
            ),
            _ => None,
        };
        let mut rewrites = Vec::new();
        if reached(&self.applied, newest, Instant::now() + COMMIT_TIMEOUT).await.is_ok() {
            for read in reads {
                let Some(sequence) = read.sequence else { continue };
                let key = self.keys.resource(&ExpectedId { uid: String::new(), ..read.id.clone() });
                let found = shown(&answer).find(|kv| kv.key == key).map(|kv| kv.mod_revision);
                // The copy has this revision, too: if the sequence is still the same, a rewrite made it.
                let rewrite = found.filter(|found| *found != self.keys.versions.revision(sequence));
                rewrites.push((key, rewrite.map(|found| (sequence, found))));
            }
        }
        Refusal { answer, usurped, rewrites }
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
}

/// Makes a key, or takes it over. Returns its revision: a transaction of the earlier run that arrives later is refused.
async fn take_over(client: &Client, key: &[u8]) -> Result<i64, Fault> {
    loop {
        let found = client.range(RangeRequest { key: key.to_vec().into(), ..RangeRequest::default() }).await?;
        let revision = found.kvs.first().map_or(0, |kv| kv.mod_revision);
        let mut taking = Transaction::default();
        taking.expect_revision(key.to_vec(), revision);
        taking.put(key.to_vec(), ulid::Ulid::generate().to_string().into_bytes());
        let answer = client.txn(taking.into_request()).await?;
        if answer.succeeded {
            return Ok(answer.header.map_or(0, |header| header.revision));
        }
    }
}

/// Returns the keys in the answer of a refused transaction.
fn shown(answer: &TxnResponse) -> impl Iterator<Item = &crate::client::KeyValue> {
    answer.responses.iter().flat_map(|response| match &response.response {
        Some(response_op::Response::ResponseRange(range)) => range.kvs.as_slice(),
        _ => &[],
    })
}
