//! Tokens and policies in memory, kept current by a watch of each type. A barrier delays the answer of a write until
//! the write is in effect.
//!
//! Events reach the watch before the write that caused them is answered, so the barrier waits for the task's turn only.
//! A watch that ends is opened again; the known tokens and policies stay until its snapshot is complete.

use std::{collections::HashSet, sync::Arc};

use mortise_acl::Access;
use mortise_resource::{Code, Error, pb, types};
use mortise_store::WatchEvent;
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

use crate::{
    core::{
        Core,
        durations::{ACCESS_RESTART_WAIT, ACCESS_SETTLE_TIMEOUT},
    },
    lists::TypeWatch,
    planted::{self, Fault},
    registry::ResourceType,
    rules::builtin_types::is_access,
};

/// The type that a change is about.
#[derive(Clone, Copy)]
enum AccessKind {
    Token,
    Policy,
}

/// The two watches.
struct AccessWatches {
    tokens: TypeWatch,
    policies: TypeWatch,
}

impl AccessWatches {
    /// Opens both, and takes the stored tokens and policies.
    async fn open(core: &Core, access: &Access) -> Result<Self, Error> {
        let mut tokens = TypeWatch::open(core, &types::token().to_pb()).await?;
        let mut policies = TypeWatch::open(core, &types::policy().to_pb()).await?;
        let known_policies = snapshot(&mut policies, |resource| access.put_policy(resource)).await?;
        let known_tokens = snapshot(&mut tokens, |resource| access.put_token(resource)).await?;
        access.retain(|name| known_tokens.contains(name), |name| known_policies.contains(name));
        for missing in access.missing_policies() {
            tracing::warn!("a setting of [acl] names policy {missing}, which does not exist and grants nothing");
        }
        Ok(Self { tokens, policies })
    }

    async fn next(&mut self) -> Result<(AccessKind, WatchEvent), Error> {
        tokio::select! {
            event = self.policies.next() => Ok((AccessKind::Policy, event?)),
            event = self.tokens.next() => Ok((AccessKind::Token, event?)),
        }
    }
}

/// Takes the snapshot of a watch; returns the names.
async fn snapshot(watch: &mut TypeWatch, put: impl Fn(&pb::Resource)) -> Result<HashSet<String>, Error> {
    let mut names = HashSet::new();
    loop {
        match watch.next().await? {
            WatchEvent::Upsert(resource) => {
                names.insert(resource.id().name.to_owned());
                put(&resource.decode()?);
            }
            WatchEvent::Delete(_) => {}
            WatchEvent::EndOfSnapshot => return Ok(names),
        }
    }
}

fn apply(access: &Access, kind: AccessKind, event: &WatchEvent) -> Result<(), Error> {
    match (kind, event) {
        (AccessKind::Token, WatchEvent::Upsert(resource)) => access.put_token(&resource.decode()?),
        (AccessKind::Token, WatchEvent::Delete(resource)) => access.remove_token(resource.id().name),
        (AccessKind::Policy, WatchEvent::Upsert(_)) if planted::happens(Fault::PolicyRemembered) => {}
        (AccessKind::Policy, WatchEvent::Upsert(resource)) => access.put_policy(&resource.decode()?),
        (AccessKind::Policy, WatchEvent::Delete(resource)) => access.remove_policy(resource.id().name),
        (_, WatchEvent::EndOfSnapshot) => {}
    }
    Ok(())
}

/// A sender that is answered once every token and policy stored before is known.
type Barrier = oneshot::Sender<()>;

/// The changes of tokens and policies. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AccessUpdates {
    core: Core,
    barriers: mpsc::Sender<Barrier>,
    /// Queue of barriers, until the task that follows the changes takes it.
    arriving: Arc<Mutex<Option<mpsc::Receiver<Barrier>>>>,
}

impl AccessUpdates {
    pub(crate) fn new(core: Core) -> Self {
        let (barriers, arriving) = mpsc::channel(1);
        Self { core, barriers, arriving: Arc::new(Mutex::new(Some(arriving))) }
    }

    /// Reads every token and policy, and returns the task that keeps them current. The task ends when the service
    /// stops.
    ///
    /// # Errors
    /// `Internal`: the store failed.
    pub(crate) async fn follow(&self) -> Result<impl Future<Output = ()> + Send + 'static, Error> {
        let (core, access) = (self.core.clone(), self.core.access().cloned());
        let barriers = self.arriving.lock().take();
        let first = match &access {
            Some(access) => Some(AccessWatches::open(&self.core, access).await?),
            None => None,
        };
        Ok(async move {
            let (Some(access), Some(barriers), Some(watches)) = (access, barriers, first) else { return };
            tokio::select! {
                () = follow(&core, &access, barriers, watches) => {}
                () = access.signal_expirations() => {}
                () = core.stopped() => {}
            }
        })
    }

    /// Waits until a stored change of a token or policy is in effect. Returns at once for other types.
    pub(crate) async fn settle(&self, kind: &ResourceType) -> Result<(), Error> {
        if self.core.access().is_none() || !is_access(kind) {
            return Ok(());
        }
        let (barrier, passed) = oneshot::channel();
        let settled = async { self.barriers.send(barrier).await.is_ok() && passed.await.is_ok() };
        match timeout(ACCESS_SETTLE_TIMEOUT, settled).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(Error::new(
                Code::Unavailable,
                format!("{} is stored, but not in effect yet; it takes effect once the server has read it", kind.gvk),
            )),
        }
    }
}

async fn follow(core: &Core, access: &Access, mut barriers: mpsc::Receiver<Barrier>, mut watches: AccessWatches) {
    loop {
        let event = tokio::select! {
            biased;
            event = watches.next() => event,
            Some(barrier) = barriers.recv() => {
                // Fails if the write no longer waits.
                let _ = barrier.send(());
                continue;
            }
        };
        match event.and_then(|(kind, event)| apply(access, kind, &event)) {
            Ok(()) => {}
            Err(ended) => {
                tracing::warn!("the watch of tokens and policies ended; opening it again: {ended}");
                watches = loop {
                    sleep(ACCESS_RESTART_WAIT).await;
                    match AccessWatches::open(core, access).await {
                        Ok(watches) => break watches,
                        Err(error) => tracing::warn!("tokens and policies cannot be read: {error}"),
                    }
                };
            }
        }
    }
}
