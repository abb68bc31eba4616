//! WatchList: a snapshot, its end, then every change, in commit order.
//!
//! # Limits
//! A watch begins in the store, where changes are noted for it from then on, when it has a place among those whose
//! snapshots are read at once (`service.max_snapshots`); it gives the place back with the end of its snapshot. Of a
//! snapshot one page is in memory; what comes after its
//! first [`SHORT`] resources is read on threads of low priority. Events wait in a buffer of the store that is bounded in events and bytes. A reader
//! that falls further behind gets `Aborted` and starts again; it never misses an event unnoticed.
//!
//! Each event is authorized when it is delivered, with the type as it is registered then; events that are there
//! together are delivered together. When what the caller may do
//! changes, the watch ends: with Unauthenticated without a valid token, with PermissionDenied where listing is no longer
//! allowed, and otherwise with Aborted, since what it has shown may be too much or too little now.

use mortise_resource::{EncodedResource, Error, IdRef, pb};
use mortise_store::{Place, Query, StoreError, TypeKey, Watch, WatchEvent};

use crate::{
    audit::Method,
    caller::{Caller, Turn},
    fair::Share,
    hooks::RequestHooks,
    list::check,
    open_watch::{OpenWatch, WatchPermission, Within},
    service::ResourceService,
    store_fault::ended,
};

/// Resources of a snapshot that are read on the threads that serve requests: those of its first two pages.
const SHORT: usize = 64 + 1_024;

/// Events that are looked at together at most, so that a watch of little among much leaves others their turns.
const TOGETHER: usize = 256;

/// An open watch of a client. Dropping it closes it.
pub struct Events {
    service: ResourceService,
    state: WatchState,
    open: OpenWatch,
}

/// How far a watch is.
enum WatchState {
    /// It has no place yet; and behind which resource it begins.
    Queued(Query, Option<Place>),
    Snapshot {
        watch: Box<dyn Watch>,
        /// Resources that were read.
        seen: usize,
        _place: Share,
    },
    Live(Box<dyn Watch>),
    Ended,
}

impl WatchState {
    /// The next event. Safe to cancel.
    async fn next(&mut self, service: &ResourceService, turn: Turn) -> Result<WatchEvent, Error> {
        if let Self::Queued(query, after) = self {
            let place = service.snapshots.acquire(turn, 1).await.map_err(|e| service.no_room(e))?;
            let watch = service.backend.watch_list(query, after.as_ref()).await.map_err(|e| ended(&e))?;
            *self = Self::Snapshot { watch, seen: 0, _place: place };
        }
        match self {
            Self::Snapshot { watch, seen, .. } => {
                let event = match *seen < SHORT {
                    true => watch.next().await,
                    false => service.low_priority.blocking(watch.next()).await,
                };
                *seen += 1;
                event
            }
            Self::Live(watch) => watch.next().await,
            Self::Queued(..) | Self::Ended => Err(StoreError::Closed),
        }
        .map_err(|e| ended(&e))
    }

    /// The next event, if it is there.
    fn ready(&mut self) -> Result<Option<WatchEvent>, Error> {
        match self {
            Self::Snapshot { watch, seen, .. } => {
                *seen += 1;
                watch.ready()
            }
            Self::Live(watch) => watch.ready(),
            Self::Queued(..) | Self::Ended => Ok(None),
        }
        .map_err(|e| ended(&e))
    }

    /// Gives back the place of a snapshot that was read.
    fn end_snapshot(&mut self) {
        *self = match std::mem::replace(self, Self::Ended) {
            Self::Snapshot { watch, .. } => Self::Live(watch),
            other => other,
        };
    }
}

impl ResourceService {
    /// Opens a watch. An absent tenancy means every partition and namespace.
    ///
    /// # Errors
    /// `InvalidArgument`: the type, a unit, the prefix, the scope. `PermissionDenied`: listing. `ResourceExhausted`:
    /// too many watches.
    pub async fn watch_list(&self, caller: &Caller, request: pb::WatchListRequest) -> Result<Events, Error> {
        let mut call = self.begin(caller, Method::WatchList).await?;
        call.about_many(request.r#type.as_ref(), request.tenancy.as_ref(), &request.name_prefix);
        let events = self.opened(caller, request).await;
        call.end(events).await
    }

    async fn opened(&self, caller: &Caller, request: pb::WatchListRequest) -> Result<Events, Error> {
        let wanted = request.r#type.ok_or_else(|| Error::invalid("type is required"))?;
        let registry = self.types();
        let kind = registry.resolve(&wanted)?;
        let mut tenancy = request.tenancy.unwrap_or_else(|| kind.scope.everywhere());
        let kind = check(&registry, &wanted, &tenancy, &request.name_prefix)?;
        kind.scope.check_query("resource", &kind.gvk.to_string(), &tenancy)?;
        // Before the caller is judged, or a change in between would be missed.
        let permission = WatchPermission::of(self, caller);
        caller.fill_own(kind.scope, &mut tenancy);
        RequestHooks::new(kind.clone(), caller).authorize_list(&tenancy).await?;
        let asked = tenancy.clone();
        kind.scope.fill_query(&mut tenancy);

        let query = Query { type_key: TypeKey::from(&wanted), tenancy, name_prefix: request.name_prefix };
        let within = Within::Many(kind.gvk.clone(), asked);
        let open = OpenWatch::new(self, caller, "WatchList", within, permission)?;
        Ok(Events { service: self.clone(), state: WatchState::Queued(query, request.after.map(place)), open })
    }
}

impl Events {
    /// Waits for the next event that the caller may read.
    ///
    /// # Errors
    /// `Aborted`: the reader starts again with an empty state. Any other error ends the watch too; one about a single
    /// resource names it, and another watch may begin behind it.
    pub async fn next(&mut self) -> Result<pb::WatchEvent, Error> {
        use pb::watch_event::{Delete, EndOfSnapshot, Event, Upsert};
        let mut next = None;
        self.next_ready(|event| {
            next = Some(event);
            false
        })
        .await?;
        let event = match next {
            Some(WatchEvent::Upsert(resource)) => Some(Event::Upsert(Upsert { resource: Some(resource.decode()?) })),
            Some(WatchEvent::Delete(resource)) => Some(Event::Delete(Delete { resource: Some(resource.decode()?) })),
            Some(WatchEvent::EndOfSnapshot) => Some(Event::EndOfSnapshot(EndOfSnapshot {})),
            None => None,
        };
        Ok(pb::WatchEvent { event })
    }

    /// Waits as [`Events::next`], and hands over what else is there then, until `each` says that it has enough. These
    /// are judged by the type as it is registered when the first of them comes.
    ///
    /// # Errors
    /// As there. What was handed over before counts.
    pub async fn next_ready(&mut self, mut each: impl FnMut(WatchEvent) -> bool) -> Result<(), Error> {
        let mut handed_over = false;
        while !handed_over {
            let mut next = Some(self.awaited().await?);
            let registry = self.service.types();
            let kind = registry.resolve_type(self.open.wanted())?;
            let mut hooks = RequestHooks::new(kind.clone(), self.open.caller());
            let mut looked_at = 1;
            while let Some(event) = next {
                let more = match shown(&mut hooks, event).await? {
                    None => true,
                    Some(event) => {
                        if let WatchEvent::EndOfSnapshot = event {
                            self.state.end_snapshot();
                        }
                        handed_over = true;
                        each(event)
                    }
                };
                next = if more && looked_at < TOGETHER { self.state.ready()? } else { None };
                looked_at += 1;
            }
        }
        Ok(())
    }

    /// Waits for the next event, whatever it is about.
    async fn awaited(&mut self) -> Result<WatchEvent, Error> {
        let turn = self.open.caller().turn();
        loop {
            tokio::select! {
                event = self.state.next(&self.service, turn) => return event,
                news = self.open.news() => self.open.judge(news).await?,
            }
        }
    }
}

/// Where a resource is in the order of lists.
fn place(id: pb::Id) -> Place {
    let pb::Tenancy { partition, namespace } = id.tenancy.unwrap_or_default();
    Place { partition, namespace, name: id.name }
}

/// What the caller may see of an event: the resource in its type's schema version.
async fn shown(hooks: &mut RequestHooks, event: WatchEvent) -> Result<Option<WatchEvent>, Error> {
    let (resource, event): (_, fn(EncodedResource) -> WatchEvent) = match event {
        WatchEvent::EndOfSnapshot => return Ok(Some(event)),
        WatchEvent::Upsert(resource) => (resource, WatchEvent::Upsert),
        WatchEvent::Delete(resource) => (resource, WatchEvent::Delete),
    };
    if !resource.has_type(&hooks.kind.gvk) {
        return Ok(None);
    }
    let stored = resource.clone();
    let resource = hooks.upgraded(resource).await.map_err(|e| {
        let IdRef { partition, namespace, name, .. } = stored.id();
        e.with_resource(partition, namespace, name)
    })?;
    Ok(hooks.may_read(&resource).await?.then(|| event(resource)))
}
