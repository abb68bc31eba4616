//! Questions that wait for the next answer: Consul's blocking queries.
//!
//! # Contract
//! A question of a caller is followed while a client waits for it, once for all clients with the same rights. After a
//! change of a resource of its answer, or of the caller's rights, it is answered again as the caller, and the clients
//! get the answer if it is another one. An error ends all of them.
//!
//! # Cost
//! Nothing without a change. A question is answered at most half of the time, so one whose resources change without
//! pause takes half a processor, and a client gets a change later the longer the answer takes.
//!
//! # Limits
//! [`super::places`] bounds the clients. Each question keeps its present answer; with more than [`MAX_BYTES`] of
//! answers, further questions are refused, while those that wait may still grow.

use std::{
    collections::{HashMap, hash_map::Entry},
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mortise_resource::{Code, Error, SERVER_STOPPING};
use mortise_service::{Caller, ResourceService};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Instant, sleep, sleep_until},
};
use tracing::Span;

use super::{
    answer::{Answer, Computed, Consul},
    changes::Changes,
    places::Places,
    question::Question,
};
use crate::call::run_guarded;

/// Bytes of the answers of waiting questions.
const MAX_BYTES: usize = 64 << 20;

/// Shortest pause between two answers of one question: changes of one moment are one answer.
const MIN_PAUSE: Duration = Duration::from_millis(5);

/// A question, and the fingerprint of its caller's rights.
type Key = (Question, u64);

/// The present answer, or the fault that ends the question.
type Latest = Result<Answer, Error>;

/// The waiting questions.
pub(super) struct Blocked {
    pub(super) places: Places,
    changes: Arc<Changes>,
    bytes: Arc<AtomicUsize>,
    followed: Mutex<HashMap<Key, Followed>>,
}

/// A question that is followed.
struct Followed {
    latest: Arc<watch::Sender<Latest>>,
    clients: usize,
    task: AbortHandle,
}

/// A client's share in a question.
struct Subscription {
    consul: Arc<Consul>,
    key: Key,
    sender: Arc<watch::Sender<Latest>>,
    latest: watch::Receiver<Latest>,
}

impl Blocked {
    pub(super) fn new(service: &ResourceService, places: Places) -> Arc<Self> {
        let changes = Changes::new(service.clone());
        Arc::new(Self { places, changes, bytes: Arc::default(), followed: Mutex::default() })
    }
}

impl Consul {
    /// Waits until a question has another answer than this one, which the client has; at most so long. Returns the
    /// present answer.
    ///
    /// # Errors
    /// `ResourceExhausted`: too many bytes wait. `Unavailable`: the server stops. Those of the answer.
    pub(super) async fn next_answer(
        self: &Arc<Self>,
        caller: &Caller,
        question: Question,
        known: Computed,
        longest: Duration,
    ) -> Result<Answer, Error> {
        let (index, deadline) = (known.answer.index, Instant::now() + longest);
        let mut subscription = self.subscribe(caller, question, known)?;
        let stopped = self.service.stopped();
        tokio::pin!(stopped);
        loop {
            let present = subscription.latest.borrow_and_update().clone();
            match present {
                Ok(answer) if answer.index <= index => {}
                // The rights of the token may have ended meanwhile.
                Ok(answer) => return caller.authorizer.check_valid().map(|()| answer),
                Err(error) => return Err(error),
            }
            tokio::select! {
                changed = subscription.latest.changed() => {
                    changed.map_err(|_| Error::internal("the question is followed no longer"))?;
                }
                () = sleep_until(deadline) => {
                    let present = subscription.latest.borrow().clone();
                    return caller.authorizer.check_valid().and(present);
                }
                () = &mut stopped => {
                    return Err(Error::new(Code::Unavailable, format!("{SERVER_STOPPING}; ask again")));
                }
            }
        }
    }

    /// Finds or begins the question, and adds a client to it.
    fn subscribe(
        self: &Arc<Self>,
        caller: &Caller,
        question: Question,
        known: Computed,
    ) -> Result<Subscription, Error> {
        let key = (question, caller.authorizer.fingerprint());
        let mut followed = self.blocked.followed.lock();
        let sender = match followed.entry(key.clone()) {
            Entry::Occupied(mut entry) => {
                let entry = entry.get_mut();
                entry.clients += 1;
                publish(&entry.latest, known.answer);
                entry.latest.clone()
            }
            Entry::Vacant(vacant) => {
                let bytes = self.blocked.bytes.load(Ordering::Relaxed);
                if bytes.saturating_add(known.answer.text.len()) > MAX_BYTES {
                    let what = format!(
                        "the answers of blocking queries take {bytes} bytes already (a fixed limit of {MAX_BYTES}); ask \
                         without index, or try again later"
                    );
                    return Err(Error::new(Code::ResourceExhausted, what));
                }
                let latest = Arc::new(watch::Sender::new(Ok(known.answer.clone())));
                let following = Following {
                    consul: self.clone(),
                    // The client of the first request may leave earlier than the others.
                    caller: caller.clone().with_reader(None),
                    key: key.clone(),
                    latest: latest.clone(),
                    share: Share { sum: self.blocked.bytes.clone(), bytes: 0 },
                };
                let task = tokio::spawn(following.run(known)).abort_handle();
                vacant.insert(Followed { latest: latest.clone(), clients: 1, task });
                latest
            }
        };
        drop(followed);
        let latest = sender.subscribe();
        Ok(Subscription { consul: self.clone(), key, sender, latest })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut followed = self.consul.blocked.followed.lock();
        if let Entry::Occupied(mut entry) = followed.entry(self.key.clone())
            && Arc::ptr_eq(&entry.get().latest, &self.sender)
        {
            entry.get_mut().clients -= 1;
            if entry.get().clients == 0 {
                entry.remove().task.abort();
            }
        }
    }
}

/// Publishes an answer, unless a newer one is there.
fn publish(latest: &watch::Sender<Latest>, answer: Answer) {
    latest.send_if_modified(|present| {
        let is_newer = present.as_ref().is_ok_and(|present| present.index < answer.index);
        if is_newer {
            *present = Ok(answer);
        }
        is_newer
    });
}

/// The bytes of a question's answer; returned when it is dropped.
struct Share {
    sum: Arc<AtomicUsize>,
    bytes: usize,
}

impl Share {
    fn set(&mut self, bytes: usize) {
        self.sum.fetch_add(bytes, Ordering::Relaxed);
        self.sum.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The task that follows a question as long as clients wait.
struct Following {
    consul: Arc<Consul>,
    caller: Caller,
    key: Key,
    latest: Arc<watch::Sender<Latest>>,
    share: Share,
}

impl Following {
    async fn run(mut self, known: Computed) {
        let error = match run_guarded(Span::none(), Box::pin(self.follow(known))).await {
            Ok(()) => return,
            Err(error) => error,
        };
        // A later client begins with a new task.
        let mut followed = self.consul.blocked.followed.lock();
        if followed.get(&self.key).is_some_and(|entry| Arc::ptr_eq(&entry.latest, &self.latest)) {
            followed.remove(&self.key);
        }
        drop(followed);
        let _ = self.latest.send_replace(Err(error));
    }

    async fn follow(&mut self, mut known: Computed) -> Result<(), Error> {
        let consul = self.consul.clone();
        let mut rights = consul.service.access().map(|access| access.changes());
        // The rights may have changed before their changes were followed.
        let mut is_current = self.caller.authorizer.fingerprint() == self.key.1;
        loop {
            self.share.set(known.answer.text.len());
            let wait = consul.blocked.changes.wait(std::mem::take(&mut known.slots), known.read_at);
            if is_current {
                tokio::select! {
                    () = wait.changed() => {}
                    () = changed(&mut rights) => {}
                }
            }
            drop(wait);
            is_current = true;
            let begun = Instant::now();
            self.caller.authorizer.check_valid()?;
            known = consul.compute(&self.caller, &self.key.0).await?;
            publish(&self.latest, known.answer.clone());
            sleep(begun.elapsed().max(MIN_PAUSE)).await;
        }
    }
}

/// Resolves at the next change of rights; never without access control.
async fn changed(rights: &mut Option<watch::Receiver<u64>>) {
    let Some(changes) = rights else { return pending().await };
    // Without a sender, which ends with the server, nothing changes.
    if changes.changed().await.is_err() {
        pending().await
    }
}
