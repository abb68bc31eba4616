//! Keeps what is known of tokens and policies as it is stored: a watch of each, and a barrier, so that a write of one
//! is answered when it is in effect.
//!
//! Events reach the watch before the write that caused them is answered, so the barrier has nothing to wait for but the
//! task's turn. A watch that ends is opened again; what is known stays until its snapshot is complete.

use std::{collections::HashSet, time::Duration};

use mortise_acl::Access;
use mortise_resource::{Code, Error, pb, types};
use mortise_store::WatchEvent;
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

use crate::{
    registry::ResourceType,
    service::{Barrier, ResourceService},
    type_watch::TypeWatch,
};

/// How long a write waits until it is in effect.
const SETTLE: Duration = Duration::from_secs(5);

/// How long it is waited before a watch is opened again.
const AGAIN: Duration = Duration::from_millis(100);

/// Which of the two a change is about.
#[derive(Clone, Copy)]
enum Kind {
    Token,
    Policy,
}

/// The two watches.
struct Watches {
    tokens: TypeWatch,
    policies: TypeWatch,
}

impl Watches {
    /// Opens both, and takes what is stored.
    async fn open(service: &ResourceService, access: &Access) -> Result<Self, Error> {
        let mut tokens = service.watch_type(&types::token().to_pb()).await?;
        let mut policies = service.watch_type(&types::policy().to_pb()).await?;
        let known_policies = snapshot(&mut policies, |resource| access.put_policy(resource)).await?;
        let known_tokens = snapshot(&mut tokens, |resource| access.put_token(resource)).await?;
        access.retain(|name| known_tokens.contains(name), |name| known_policies.contains(name));
        Ok(Self { tokens, policies })
    }

    async fn next(&mut self) -> Result<(Kind, WatchEvent), Error> {
        tokio::select! {
            event = self.policies.next() => Ok((Kind::Policy, event?)),
            event = self.tokens.next() => Ok((Kind::Token, event?)),
        }
    }
}

/// Takes what a watch begins with; answers the names.
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

fn apply(access: &Access, kind: Kind, event: &WatchEvent) -> Result<(), Error> {
    match (kind, event) {
        (Kind::Token, WatchEvent::Upsert(resource)) => access.put_token(&resource.decode()?),
        (Kind::Token, WatchEvent::Delete(resource)) => access.remove_token(resource.id().name),
        (Kind::Policy, WatchEvent::Upsert(resource)) => access.put_policy(&resource.decode()?),
        (Kind::Policy, WatchEvent::Delete(resource)) => access.remove_policy(resource.id().name),
        (_, WatchEvent::EndOfSnapshot) => {}
    }
    Ok(())
}

impl ResourceService {
    /// Reads every token and policy, and answers the task that keeps them as they are stored. It ends after
    /// [`ResourceService::stop`].
    ///
    /// # Errors
    /// `Internal`: the store failed.
    pub async fn follow_access(&self) -> Result<impl Future<Output = ()> + Send + 'static, Error> {
        let (service, access) = (self.clone(), self.access().cloned());
        let barriers = self.barriers.1.lock().take();
        let first = match &access {
            Some(access) => Some(Watches::open(self, access).await?),
            None => None,
        };
        Ok(async move {
            let (Some(access), Some(barriers), Some(watches)) = (access, barriers, first) else { return };
            tokio::select! {
                () = follow(&service, &access, barriers, watches) => {}
                () = access.signal_expirations() => {}
                () = service.stopped() => {}
            }
        })
    }

    /// Waits until a change of a token or policy that was stored is in effect. Other types have nothing to wait for.
    pub(crate) async fn settle(&self, kind: &ResourceType) -> Result<(), Error> {
        if self.access().is_none() || (kind.gvk != types::token() && kind.gvk != types::policy()) {
            return Ok(());
        }
        let (barrier, passed) = oneshot::channel();
        let settled = async { self.barriers.0.send(barrier).await.is_ok() && passed.await.is_ok() };
        match timeout(SETTLE, settled).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(Error::new(
                Code::Unavailable,
                format!("{} is stored, but not in effect yet; it will be, once the server has read it", kind.gvk),
            )),
        }
    }
}

async fn follow(
    service: &ResourceService,
    access: &Access,
    mut barriers: mpsc::Receiver<Barrier>,
    mut watches: Watches,
) {
    loop {
        let event = tokio::select! {
            biased;
            event = watches.next() => event,
            Some(barrier) = barriers.recv() => {
                // Nobody waits any more if this fails.
                let _ = barrier.send(());
                continue;
            }
        };
        match event.and_then(|(kind, event)| apply(access, kind, &event)) {
            Ok(()) => {}
            Err(ended) => {
                tracing::warn!("the watch of tokens and policies ended, and is opened again: {ended}");
                watches = loop {
                    sleep(AGAIN).await;
                    match Watches::open(service, access).await {
                        Ok(watches) => break watches,
                        Err(error) => tracing::warn!("tokens and policies cannot be read: {error}"),
                    }
                };
            }
        }
    }
}
