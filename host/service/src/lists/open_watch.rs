//! The common part of every client's watch: a place among all watches, its end with the server, and its end after a
//! change of the caller's permissions.

use std::{
    future::{pending, poll_fn},
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use mortise_resource::{Code, Error, pb, types::Gvk};
use tokio::sync::watch;

use super::{pools::Lists, watch_places::WatchPlace, watched_types::WatchedType};
use crate::{
    call::{Call, Caller, store_fault::ended},
    core::Core,
    rules::RequestHooks,
};

/// A watch that is open. Dropping it gives its place back.
pub(crate) struct OpenWatch {
    core: Core,
    caller: Caller,
    /// Method name for records.
    method: &'static str,
    scope: WatchScope,
    /// Permissions at the start of the watch.
    fingerprint: u64,
    /// Reasons to check the watch. Each is polled only after it was woken itself, so a wait for an event does not pay
    /// for them.
    signals: FuturesUnordered<Signal>,
    _place: WatchPlace,
    /// Its count among the watches of its type.
    _counted: WatchedType,
}

/// A future reason to check a watch; with the signal of permissions, to wait for the next one.
type Signal = Pin<Box<dyn Future<Output = (AccessChange, Option<watch::Receiver<u64>>)> + Send + Sync>>;

/// The requested scope of a watch.
pub(crate) enum WatchScope {
    /// Resources of a type.
    Many(Gvk, pb::Tenancy),
    /// A single resource.
    One(Gvk, pb::Id),
}

/// The caller's permissions at the start of the watch, and the signal of their changes.
pub(crate) struct WatchPermission {
    fingerprint: u64,
    changes: Option<watch::Receiver<u64>>,
}

/// The reason for a check of an open watch.
pub(crate) enum AccessChange {
    /// The permissions of some caller have changed.
    Permissions,
    /// The service stops.
    Stopped,
    /// The watch makes room for one of another caller.
    Replaced,
}

impl WatchPermission {
    /// Takes the caller's current permissions. Must precede the caller's authorization, or a change in between is
    /// missed.
    pub(crate) fn now(core: &Core, caller: &Caller) -> Self {
        Self { changes: core.access().map(|access| access.changes()), fingerprint: caller.authorizer.fingerprint() }
    }
}

/// Waits for the next change of permissions. Without a sender, which ends with the server, nothing changes.
async fn permissions_changed(mut changes: watch::Receiver<u64>) -> (AccessChange, Option<watch::Receiver<u64>>) {
    match changes.changed().await {
        Ok(()) => (AccessChange::Permissions, Some(changes)),
        Err(_) => pending().await,
    }
}

impl OpenWatch {
    /// Takes a place among the open watches.
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
        let place = lists.open_watch(caller)?;
        let WatchPermission { fingerprint, changes } = permission;
        let (stopped, replaced) = (lists.core.stopped(), place.replaced());
        let mut signals = FuturesUnordered::<Signal>::new();
        signals.push(Box::pin(async move {
            stopped.await;
            (AccessChange::Stopped, None)
        }));
        signals.push(Box::pin(async move {
            replaced.await;
            (AccessChange::Replaced, None)
        }));
        signals.extend(changes.map(|changes| Box::pin(permissions_changed(changes)) as Signal));
        let (WatchScope::Many(wanted, _) | WatchScope::One(wanted, _)) = &scope;
        let counted = lists.count_watch(wanted);
        let (core, caller) = (lists.core.clone(), caller.clone());
        Ok(Self { core, caller, method, scope, fingerprint, signals, _place: place, _counted: counted })
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Returns the type.
    pub(crate) fn wanted(&self) -> &Gvk {
        match &self.scope {
            WatchScope::Many(wanted, _) | WatchScope::One(wanted, _) => wanted,
        }
    }

    /// Waits for a future while the watch may go on.
    ///
    /// # Errors
    /// The reason for the end of the watch.
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

    /// Resolves when the watch has to be [judged](Self::judge). Safe to cancel.
    pub(super) async fn access_change(&mut self) -> AccessChange {
        poll_fn(|cx| self.poll_access_change(cx)).await
    }

    /// Polls [`OpenWatch::access_change`].
    pub(super) fn poll_access_change(&mut self, cx: &mut Context<'_>) -> Poll<AccessChange> {
        // Without signals there is nothing to wait for: the server's end is always one.
        let Some((change, changes)) = ready!(self.signals.poll_next_unpin(cx)) else { return Poll::Pending };
        if let Some(changes) = changes {
            self.signals.push(Box::pin(permissions_changed(changes)));
        }
        Poll::Ready(change)
    }

    /// Ends the watch when the service stops, when it has to make room, or when the caller's permissions differ from
    /// those at its start.
    ///
    /// # Errors
    /// The reason for the end of the watch.
    pub(super) async fn judge(&mut self, change: AccessChange) -> Result<(), Error> {
        match change {
            AccessChange::Stopped => return Err(ended(&mortise_store::StoreError::Closed)),
            AccessChange::Replaced => {
                let what = "the watch makes room for another caller's, since all are in use (limit service.max_watches) and \
                            this caller has the most; try again";
                return Err(Error::new(Code::Aborted, what));
            }
            AccessChange::Permissions if self.caller.authorizer.fingerprint() == self.fingerprint => {
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
        Err(Error::new(Code::Aborted, "the caller's permissions have changed; watch again for a new snapshot"))
    }

    /// Fails if the caller may no longer watch.
    async fn lost_permission(&mut self) -> Result<(), Error> {
        self.caller.authorizer.check_valid()?;
        let kind = self.core.types().resolve(&self.wanted().to_pb())?.clone();
        let mut hooks = RequestHooks::new(kind, &self.caller);
        match &self.scope {
            WatchScope::Many(_, tenancy) => hooks.authorize_list(tenancy).await,
            // The hook may need the resource; the next watch finds that out.
            WatchScope::One(_, id) => hooks.authorize_read(id).await.map(drop),
        }
    }
}
