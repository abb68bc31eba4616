//! The common part of every client's watch: a place among all watches, an end with the server, and an end when its
//! caller's permissions change.

use std::pin::Pin;

use mortise_resource::{Code, Error, pb, types::Gvk};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::pools::Lists;
use crate::{
    call::{Call, Caller, CountedOne, store_fault::ended},
    core::Core,
    rules::RequestHooks,
};

/// A watch that is open. Dropping it gives its place back.
pub(crate) struct OpenWatch {
    core: Core,
    caller: Caller,
    /// The method, as records name it.
    method: &'static str,
    scope: WatchScope,
    permission: WatchPermission,
    stopped: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
    _permit: OwnedSemaphorePermit,
    _counted: Option<CountedOne>,
}

/// What is watched, as it was asked for.
pub(crate) enum WatchScope {
    /// Resources of a type.
    Many(Gvk, pb::Tenancy),
    /// One.
    One(Gvk, pb::Id),
}

/// What the caller might do when the watch began, and the change of changes.
pub(crate) struct WatchPermission {
    fingerprint: u64,
    changes: Option<watch::Receiver<u64>>,
}

/// Why a watch has to look up.
pub(crate) enum AccessChange {
    /// Some caller may do something else than before.
    Permissions,
    /// The service stops.
    Stopped,
}

impl WatchPermission {
    /// What the caller may do now. To be taken before the caller is judged, or a change in between is missed.
    pub(crate) fn now(core: &Core, caller: &Caller) -> Self {
        Self { changes: core.access().map(|access| access.changes()), fingerprint: caller.authorizer.fingerprint() }
    }

    async fn changed(&mut self) {
        let changed = match &mut self.changes {
            Some(changes) => changes.changed().await.is_ok(),
            None => false,
        };
        // Without a sender, which goes with the server, nothing changes.
        if !changed {
            std::future::pending().await
        }
    }
}

impl OpenWatch {
    /// Takes a place.
    ///
    /// # Errors
    /// `ResourceExhausted`: too many watches.
    pub(crate) fn new(
        lists: &Lists,
        caller: &Caller,
        method: &'static str,
        scope: WatchScope,
        permission: WatchPermission,
    ) -> Result<Self, Error> {
        let (permit, counted) = lists.open_watch(caller)?;
        Ok(Self {
            core: lists.core.clone(),
            caller: caller.clone(),
            method,
            scope,
            permission,
            stopped: Box::pin(lists.core.stopped()),
            _permit: permit,
            _counted: counted,
        })
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The type.
    pub(crate) fn wanted(&self) -> &Gvk {
        match &self.scope {
            WatchScope::Many(wanted, _) | WatchScope::One(wanted, _) => wanted,
        }
    }

    /// Waits for something, as long as the watch goes on.
    ///
    /// # Errors
    /// Why it ends.
    pub(crate) async fn until<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Error> {
        let mut wait = std::pin::pin!(wait);
        loop {
            let change = tokio::select! {
                done = &mut wait => return Ok(done),
                change = self.access_change() => change,
            };
            self.judge(change).await?;
        }
    }

    /// Resolves when there is something to [judge](Self::judge). Safe to cancel.
    pub(super) async fn access_change(&mut self) -> AccessChange {
        tokio::select! {
            () = self.permission.changed() => AccessChange::Permissions,
            () = &mut self.stopped => AccessChange::Stopped,
        }
    }

    /// Ends the watch when the service stops, and when the caller may do something else than when it began.
    ///
    /// # Errors
    /// Why it ends.
    pub(super) async fn judge(&mut self, change: AccessChange) -> Result<(), Error> {
        match change {
            AccessChange::Stopped => return Err(ended(&mortise_store::StoreError::Closed)),
            AccessChange::Permissions if self.caller.authorizer.fingerprint() == self.permission.fingerprint => {
                return Ok(());
            }
            AccessChange::Permissions => {}
        }
        let lost = self.lost_permission().await;
        // Its record, like that of its beginning; a watch that may go on elsewhere leaves none.
        let caller = &self.caller;
        let name = format!("{}, ended", self.method).into();
        let mut call = Call::begin_unrated(&self.core, &caller.authorizer, caller.origin.as_ref(), name, false).await?;
        match &self.scope {
            WatchScope::Many(wanted, tenancy) => call.about_many(Some(&wanted.to_pb()), Some(tenancy), ""),
            WatchScope::One(_, id) => call.about(Some(id)),
        }
        call.end(lost).await?;
        Err(Error::new(Code::Aborted, "what the caller may see has changed; watch again for a new snapshot"))
    }

    /// Fails where the caller may not watch any more.
    async fn lost_permission(&mut self) -> Result<(), Error> {
        self.caller.authorizer.check_valid()?;
        let kind = self.core.types().resolve(&self.wanted().to_pb())?.clone();
        let mut hooks = RequestHooks::new(kind, &self.caller);
        match &self.scope {
            WatchScope::Many(_, tenancy) => hooks.authorize_list(tenancy).await,
            // What the resource has may count, which the next watch finds out.
            WatchScope::One(_, id) => hooks.authorize_read(id).await.map(drop),
        }
    }
}
