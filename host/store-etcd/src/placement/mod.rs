//! Placement: work that only one server may do at a time, such as the runs of a controller, is spread over the servers.
//!
//! Each server has a lease of etcd ([`LEASE_SECONDS`]), and under it a *member* with the names of the work that it could
//! do. A name is *held* by the server whose key `placement/NAME` exists. Of the members that could do a piece of work, a
//! hash of both names prefers one; it takes the work when it is free, and another server gives it up to it. A server that
//! is not preferred takes free work after [`FREE_GRACE`].
//!
//! # Contract
//! - At most one server holds a name. A server that cannot renew its lease gives up its names before etcd does, by its own
//!   monotonic clock.
//! - A lease says nothing about a server that was paused. So a commit of held work compares the revision in which its key
//!   was made ([`Fence`]): after a hand-over it is refused, however late it comes.
//! - After a kill, another server holds a name within the lease and two rounds; after a clean stop, within one round.
//!
//! # Cost
//! Three small calls of etcd in each round ([`ROUND`]) of each server, however many names there are.

mod choice;
mod members;
mod report;
mod session;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_store::MemberInfo;
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::{Notify, watch};

use self::{choice::preferred, report::MemberRecord, session::Session};
use crate::{
    client::{Client, Fault, KeyValue, RangeRequest, Transaction},
    keys::{Keys, range_end},
};

/// Life of a server's lease without a renewal, seconds.
pub(crate) const LEASE_SECONDS: i64 = 3;
/// Time between two rounds, which renew the lease.
pub(crate) const ROUND: Duration = Duration::from_millis(500);
/// Time after which a server takes free work that another one is preferred for.
const FREE_GRACE: Duration = Duration::from_secs(2);

/// Condition of a commit: the key of a name still is the one that this server made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) key: Vec<u8>,
    /// Revision in which the key was made.
    pub(crate) made_at: i64,
}

/// A name that this server wants.
struct Wanted {
    held: watch::Sender<bool>,
    /// Revision in which the key was made, while it is held.
    made_at: Option<i64>,
    /// Moment at which the name was seen free.
    free_since: Option<Instant>,
}

/// State of a server's placement.
struct State {
    wanted: BTreeMap<String, Wanted>,
    /// Servers that ran at the last round.
    servers: Vec<String>,
    /// Moment at which this server must have given up everything.
    alive_until: Option<Instant>,
    /// Facts about this server, once its ports are open.
    info: Option<MemberInfo>,
}

/// Work of this server.
#[derive(Clone)]
pub(crate) struct Placements {
    client: Arc<Client>,
    keys: Keys,
    server: Arc<str>,
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
    stopped: watch::Sender<bool>,
    /// Counted up when a server comes or goes.
    servers_changed: watch::Sender<u64>,
    /// Revision of the copy.
    applied: watch::Receiver<i64>,
}

impl Placements {
    /// Makes the work of a server. `servers_changed` is counted up when a server comes or goes.
    pub(crate) fn new(
        client: Arc<Client>,
        keys: Keys,
        server: &str,
        servers_changed: watch::Sender<u64>,
        applied: watch::Receiver<i64>,
    ) -> Self {
        Self {
            client,
            keys,
            server: server.into(),
            state: Arc::new(Mutex::new(State {
                wanted: BTreeMap::new(),
                servers: Vec::new(),
                alive_until: None,
                info: None,
            })),
            changed: Arc::default(),
            stopped: watch::Sender::new(false),
            servers_changed,
            applied,
        }
    }

    /// Asks for a name; the value is true while this server holds it. Dropping the receivers gives it up.
    pub(crate) fn hold(&self, name: &str) -> watch::Receiver<bool> {
        let mut state = self.state.lock();
        let wanted = state.wanted.entry(name.to_owned()).or_insert_with(|| Wanted {
            held: watch::Sender::new(false),
            made_at: None,
            free_since: None,
        });
        let receiver = wanted.held.subscribe();
        drop(state);
        self.changed.notify_one();
        receiver
    }

    /// Tells the other servers about this one.
    pub(crate) fn introduce(&self, info: MemberInfo) {
        self.state.lock().info = Some(info);
        self.changed.notify_one();
    }

    /// Returns the name of this server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Returns the servers that run, as of the last round; empty without a lease of this server.
    pub(crate) fn servers(&self) -> Vec<String> {
        let state = self.state.lock();
        match state.alive_until.is_some_and(|until| Instant::now() < until) {
            true => state.servers.clone(),
            false => Vec::new(),
        }
    }

    /// Returns the condition of commits of a name; `None` while this server does not hold it.
    pub(crate) fn fence(&self, name: &str) -> Option<Fence> {
        let state = self.state.lock();
        let made_at = state.wanted.get(name)?.made_at?;
        let is_alive = state.alive_until.is_some_and(|until| Instant::now() < until);
        is_alive.then(|| Fence { key: self.keys.placement(name), made_at })
    }

    /// Gives everything up at once, so that others need not wait for the end of the lease.
    pub(crate) async fn stop(&self) {
        self.lose_all();
        self.stopped.send_replace(true);
        // The task confirms by dropping its receiver.
        let _ = tokio::time::timeout(ROUND * 4, self.stopped.closed()).await;
    }

    /// Works in rounds until the stop.
    pub(crate) async fn run(self) {
        let mut stopped = self.stopped.subscribe();
        let mut session: Option<Session> = None;
        loop {
            let begun = Instant::now();
            match self.round(&mut session).await {
                Ok(()) => {}
                Err(fault) => {
                    tracing::debug!(%fault, "a round of placement failed");
                    let lost = self.state.lock().alive_until.is_none_or(|until| Instant::now() >= until);
                    if lost {
                        self.lose_all();
                        session = None;
                    }
                }
            }
            let rest = ROUND.saturating_sub(begun.elapsed());
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                () = self.changed.notified() => {}
                _ = stopped.wait_for(|stopped| *stopped) => break,
            }
        }
        if let Some(session) = session {
            // At worst the lease ends by itself.
            let _ = session.revoke(&self.client).await;
        }
    }

    async fn round(&self, session: &mut Option<Session>) -> Result<(), Fault> {
        let names: Vec<_> = {
            let mut state = self.state.lock();
            state.wanted.retain(|_, wanted| wanted.made_at.is_some() || wanted.held.receiver_count() > 0);
            let asked = |(_, wanted): &(&String, &Wanted)| wanted.held.receiver_count() > 0;
            state.wanted.iter().filter(asked).map(|(name, _)| name.clone()).collect()
        };
        let current = match session.take() {
            Some(mut current) => match current.renew(&self.client).await? {
                true => current,
                // Etcd has ended the lease, with everything under it.
                false => {
                    self.lose_all();
                    Session::begin(&self.client).await?
                }
            },
            None => Session::begin(&self.client).await?,
        };
        let current = session.insert(current);
        self.state.lock().alive_until = Some(current.alive_until());
        let info = self.state.lock().info.clone();
        let record = MemberRecord::new(names, info, *self.applied.borrow());
        if current.is_report_due(&record) {
            let mut joining = Transaction::default();
            joining.put_leased(self.keys.member(&self.server), record.encode_to_vec(), current.id());
            self.client.txn(joining.into_request()).await?;
            current.reported(record);
        }
        let members = self.list(self.keys.members()).await?;
        let members: Vec<_> = members.iter().filter_map(|kv| self.member(kv)).collect();
        let members: Vec<_> = members.into_iter().map(|(server, record)| (server, record.names)).collect();
        let placed = self.list(self.keys.placements()).await?;
        metrics::gauge!("mortise_etcd_members").set(members.len() as f64);
        let servers: Vec<_> = members.iter().map(|(server, _)| server.clone()).collect();
        let changed = std::mem::replace(&mut self.state.lock().servers, servers.clone()) != servers;
        if changed {
            self.servers_changed.send_modify(|changes| *changes += 1);
        }
        self.settle(current.id(), &members, &placed).await
    }

    /// Takes and gives up names as the members and the placed names say.
    async fn settle(&self, lease: i64, members: &[(String, Vec<String>)], placed: &[KeyValue]) -> Result<(), Fault> {
        let wanted: Vec<_> = self.state.lock().wanted.keys().cloned().collect();
        for name in wanted {
            let key = self.keys.placement(&name);
            let holder = placed.iter().find(|kv| kv.key == key);
            let able = members.iter().filter(|(_, names)| names.contains(&name)).map(|(server, _)| server.as_str());
            let is_preferred = preferred(&name, able) == Some(&*self.server);
            match holder {
                Some(kv) if kv.lease == lease && is_preferred => self.note(&name, Some(kv.create_revision)),
                // Another server is there for it, or nothing here wants it any more.
                Some(kv) if kv.lease == lease => {
                    self.note(&name, None);
                    let mut giving = Transaction::default();
                    giving.expect_made_at(key.clone(), kv.create_revision);
                    giving.delete(key);
                    self.client.txn(giving.into_request()).await?;
                }
                Some(_) => self.note(&name, None),
                None if self.may_take(&name, is_preferred) => {
                    let mut taking = Transaction::default();
                    taking.expect_revision(key.clone(), 0);
                    taking.put_leased(key, self.server.as_bytes().to_vec(), lease);
                    let answer = self.client.txn(taking.into_request()).await?;
                    let revision = answer.header.map_or(0, |header| header.revision);
                    self.note(&name, answer.succeeded.then_some(revision));
                }
                None => self.note_free(&name),
            }
        }
        Ok(())
    }

    fn may_take(&self, name: &str, is_preferred: bool) -> bool {
        let state = self.state.lock();
        let Some(wanted) = state.wanted.get(name) else { return false };
        // What was lost unnoticed is given up first, so that its runs begin again.
        let is_asked = wanted.held.receiver_count() > 0 && wanted.made_at.is_none();
        is_asked && (is_preferred || wanted.free_since.is_some_and(|since| since.elapsed() >= FREE_GRACE))
    }

    fn note_free(&self, name: &str) {
        let mut state = self.state.lock();
        if let Some(wanted) = state.wanted.get_mut(name) {
            wanted.free_since.get_or_insert_with(Instant::now);
            wanted.made_at = None;
            wanted.held.send_if_modified(std::mem::take);
        }
    }

    fn note(&self, name: &str, made_at: Option<i64>) {
        let mut state = self.state.lock();
        if let Some(wanted) = state.wanted.get_mut(name) {
            wanted.free_since = None;
            wanted.made_at = made_at;
            wanted.held.send_if_modified(|held| std::mem::replace(held, made_at.is_some()) != made_at.is_some());
        }
    }

    fn lose_all(&self) {
        let mut state = self.state.lock();
        state.alive_until = None;
        for wanted in state.wanted.values_mut() {
            wanted.made_at = None;
            wanted.held.send_if_modified(std::mem::take);
        }
    }

    fn member(&self, kv: &KeyValue) -> Option<(String, MemberRecord)> {
        let server = self.keys.member_of(&kv.key)?;
        Some((server, MemberRecord::decode(&*kv.value).ok()?))
    }

    async fn list(&self, prefix: Vec<u8>) -> Result<Vec<KeyValue>, Fault> {
        let range_end = range_end(&prefix).into();
        Ok(self.client.range(RangeRequest { key: prefix.into(), range_end, ..RangeRequest::default() }).await?.kvs)
    }
}
