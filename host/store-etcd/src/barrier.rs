//! Waits until the copy has everything that was acknowledged before.
//!
//! The head changes with every commit, so a copy that has its newest change has all of them. One linearizable read of
//! the head serves every caller that waited for it to begin.

use std::sync::Arc;

use mortise_store::StoreError;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Duration, Instant, sleep, timeout_at},
};

use crate::{
    client::{Client, Fault, RangeRequest},
    keys::Keys,
};

/// Longest wait of a consistent read.
const BARRIER_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

type Waiter = (Instant, oneshot::Sender<Result<i64, Arc<Fault>>>);

/// Entrance for those who wait.
#[derive(Clone)]
pub(crate) struct Barrier {
    waiters: mpsc::UnboundedSender<Waiter>,
    applied: watch::Receiver<i64>,
}

impl Barrier {
    /// Starts the task that asks etcd, which ends with the last entrance. `applied` is the revision of the copy.
    pub(crate) fn start(client: Arc<Client>, keys: Keys, applied: watch::Receiver<i64>) -> Self {
        let (waiters, waiting) = mpsc::unbounded_channel();
        tokio::spawn(ask(client, keys, waiting));
        Self { waiters, applied }
    }

    /// Waits until the copy has every commit that was acknowledged before the call.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] after [`BARRIER_TIMEOUT`]; [`StoreError::Closed`].
    pub(crate) async fn pass(&self) -> Result<(), StoreError> {
        let deadline = Instant::now() + BARRIER_TIMEOUT;
        let (reply, answer) = oneshot::channel();
        self.waiters.send((deadline, reply)).map_err(|_| StoreError::Closed)?;
        let head = answer
            .await
            .map_err(|_| StoreError::Closed)?
            .map_err(|fault| StoreError::Unreachable(fault.to_string()))?;
        reached(&self.applied, head, deadline).await
    }
}

/// Waits until the copy has a revision.
pub(crate) async fn reached(
    applied: &watch::Receiver<i64>,
    revision: i64,
    deadline: Instant,
) -> Result<(), StoreError> {
    let mut applied = applied.clone();
    match timeout_at(deadline, applied.wait_for(|applied| *applied >= revision)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err(StoreError::Closed),
        Err(_) => Err(StoreError::Unreachable("the changes of other servers do not arrive".to_owned())),
    }
}

/// Returns the revision of the newest commit, for all of its earlier acknowledged ones; 0 before the first.
pub(crate) async fn head(client: &Client, keys: &Keys) -> Result<i64, Fault> {
    let found =
        client.range(RangeRequest { key: keys.head().into(), keys_only: true, ..RangeRequest::default() }).await?;
    Ok(found.kvs.first().map_or(0, |head| head.mod_revision))
}

/// Reads the head for everybody who waits when the read begins.
async fn ask(client: Arc<Client>, keys: Keys, mut waiting: mpsc::UnboundedReceiver<Waiter>) {
    let mut waiters = Vec::new();
    while waiting.recv_many(&mut waiters, usize::MAX).await > 0 {
        loop {
            metrics::counter!("mortise_etcd_reads_total").increment(1);
            match head(&client, &keys).await {
                Ok(revision) => {
                    waiters.drain(..).for_each(|(_, reply)| drop(reply.send(Ok(revision))));
                    break;
                }
                Err(fault) => {
                    let fault = Arc::new(fault);
                    let now = Instant::now();
                    for (_, reply) in waiters.extract_if(.., |(deadline, reply)| *deadline <= now || reply.is_closed())
                    {
                        drop(reply.send(Err(fault.clone())));
                    }
                    if waiters.is_empty() {
                        break;
                    }
                    sleep(RETRY_PAUSE).await;
                }
            }
        }
    }
}
