//! What every watch of a client has, whatever it watches: a place among all watches, an end with the server, and an end
//! when what its caller may do changes.

use std::pin::Pin;

use mortise_resource::{Code, Error, pb, types::Gvk};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::{
    call::{
        audit::Call,
        caller::{Caller, caller_number},
        caller_counts::CountedOne,
        store_fault::ended,
    },
    rules::hooks::RequestHooks,
    service::ResourceService,
};

/// A watch that is open. Dropping it gives its place back.
pub(crate) struct OpenWatch {
    service: ResourceService,
    caller: Caller,
    /// The method, as records name it.
    method: &'static str,
    within: Within,
    permission: WatchPermission,
    stopped: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
    _permit: OwnedSemaphorePermit,
    _counted: Option<CountedOne>,
}

/// What is watched, as it was asked for.
pub(crate) enum Within {
    /// Resources of a type.
    Many(Gvk, pb::Tenancy),
    /// One.
    One(Gvk, pb::Id),
}

/// What the caller might do when the watch began, and the news of changes.
pub(crate) struct WatchPermission {
    fingerprint: u64,
    changes: Option<watch::Receiver<u64>>,
}

/// Why a watch has to look up.
pub(crate) enum News {
    /// Some caller may do something else than before.
    Permissions,
    /// The service stops.
    Stopped,
}

impl WatchPermission {
    /// What the caller may do now. To be taken before the caller is judged, or a change in between is missed.
    pub(crate) fn of(service: &ResourceService, caller: &Caller) -> Self {
        Self { changes: service.access().map(|access| access.changes()), fingerprint: caller.authorizer.fingerprint() }
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
        service: &ResourceService,
        caller: &Caller,
        method: &'static str,
        within: Within,
        permission: WatchPermission,
    ) -> Result<Self, Error> {
        let number = caller_number(&service.core, &*caller.authorizer);
        let counted = number.map(|number| service.caller_watches.open(number)).transpose()?;
        let permit = service.watches.clone().try_acquire_owned().map_err(|_| {
            metrics::counter!("mortise_watches_refused_total").increment(1);
            let max = service.core.options.max_watches;
            Error::new(Code::ResourceExhausted, format!("{max} watches are open already (limit service.max_watches)"))
        })?;
        Ok(Self {
            service: service.clone(),
            caller: caller.clone(),
            method,
            within,
            permission,
            stopped: Box::pin(service.stopped()),
            _permit: permit,
            _counted: counted,
        })
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The type.
    pub(crate) fn wanted(&self) -> &Gvk {
        match &self.within {
            Within::Many(wanted, _) | Within::One(wanted, _) => wanted,
        }
    }

    /// Waits for something, as long as the watch goes on.
    ///
    /// # Errors
    /// Why it ends.
    pub(crate) async fn until<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Error> {
        let mut wait = std::pin::pin!(wait);
        loop {
            let news = tokio::select! {
                done = &mut wait => return Ok(done),
                news = self.news() => news,
            };
            self.judge(news).await?;
        }
    }

    /// Resolves when there is something to [judge](Self::judge). Safe to cancel.
    pub(crate) async fn news(&mut self) -> News {
        tokio::select! {
            () = self.permission.changed() => News::Permissions,
            () = &mut self.stopped => News::Stopped,
        }
    }

    /// Ends the watch when the service stops, and when the caller may do something else than when it began.
    ///
    /// # Errors
    /// Why it ends.
    pub(crate) async fn judge(&mut self, news: News) -> Result<(), Error> {
        match news {
            News::Stopped => return Err(ended(&mortise_store::StoreError::Closed)),
            News::Permissions if self.caller.authorizer.fingerprint() == self.permission.fingerprint => return Ok(()),
            News::Permissions => {}
        }
        let lost = self.lost_permission().await;
        // Its record, like that of its beginning; a watch that may go on elsewhere leaves none.
        let caller = &self.caller;
        let name = format!("{}, ended", self.method).into();
        let mut call =
            Call::begin_unrated(&self.service.core, &caller.authorizer, caller.origin.as_ref(), name, false).await?;
        match &self.within {
            Within::Many(wanted, tenancy) => call.about_many(Some(&wanted.to_pb()), Some(tenancy), ""),
            Within::One(_, id) => call.about(Some(id)),
        }
        call.end(lost).await?;
        Err(Error::new(Code::Aborted, "what the caller may see has changed; watch again for a new snapshot"))
    }

    /// Fails where the caller may not watch any more.
    async fn lost_permission(&mut self) -> Result<(), Error> {
        self.caller.authorizer.check_valid()?;
        let kind = self.service.types().resolve(&self.wanted().to_pb())?.clone();
        let mut hooks = RequestHooks::new(kind, &self.caller);
        match &self.within {
            Within::Many(_, tenancy) => hooks.authorize_list(tenancy).await,
            // What the resource has may count, which the next watch finds out.
            Within::One(_, id) => hooks.authorize_read(id).await.map(drop),
        }
    }
}
