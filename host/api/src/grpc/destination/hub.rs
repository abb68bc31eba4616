//! The watched services: one for each pair of service and caller, shared by any number of streams.
//!
//! A service is followed (`follow`) on behalf of the caller until its last stream is closed. All callers with every
//! permission share one.
//!
//! A watch that ends (it lagged, the plugin is gone, the store fails) is opened again after a wait, and streams stay
//! unchanged until its snapshot is complete. Its streams end with the fault if the service is still unknown, or if the
//! caller has lost the permission to watch it.
//!
//! # Limits
//! Watched services and addresses (`max_services` of the options), and bytes of all known endpoints
//! (`destination.state_bytes`): beyond these limits, streams for further services are refused. The bytes may still grow
//! with the services that are already watched.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
    sync::{Arc, Weak},
};

use mortise_resource::{Code, Error, authorizer::no_permissions, backoff::Waits};
use mortise_service::{Caller, ResourceService};
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::{AbortHandle, yield_now},
};

use super::{
    DestinationOptions,
    addresses::{AddressShare, Addresses},
    authority::{Selection, ServiceName},
    follow::{Following, unreadable},
    memory::{Memory, MemoryShare},
    reopen::{Reopened, keep_open},
    state::Snapshot,
    view::View,
};
use crate::{
    endpoints::require_catalog,
    grpc::{calls::AnswerBytes, status::status},
};

/// The watched services.
pub(super) struct Hub {
    service: ResourceService,
    options: DestinationOptions,
    answers: AnswerBytes,
    memory: Memory,
    /// Places for watched services and addresses.
    places: Arc<Semaphore>,
    addresses: Arc<Addresses>,
    watches: Mutex<HashMap<WatchKey, Watch>>,
}

/// A service, and the fingerprint of the caller.
type WatchKey = (ServiceName, u64);

/// The watch of a service.
struct Watch {
    service: Arc<WatchedService>,
    streams: usize,
    task: AbortHandle,
    _place: OwnedSemaphorePermit,
}

/// The known state of a service.
struct WatchedService {
    name: ServiceName,
    /// The fingerprint of the caller.
    by: u64,
    known: Mutex<Known>,
    /// Whether a stream needs the routes; once true, it stays so.
    needs_routes: watch::Sender<bool>,
}

struct Known {
    /// Number of states so far, from 1.
    seen: u64,
    state: State,
    views: HashMap<Selection, SharedView>,
    memory: MemoryShare,
}

/// The state of a service.
#[derive(Clone)]
enum State {
    /// Unknown so far.
    Unknown,
    Known(Arc<Snapshot>),
    /// The service cannot be watched. The entry is removed.
    Failed(Error),
}

struct SharedView {
    view: Arc<View>,
    streams: usize,
}

/// A stream's share in a view. The view is kept up to date until the last share is dropped.
pub(super) struct Subscription {
    pub(super) view: Arc<View>,
    /// `None` for a view that never changes.
    watched: Option<(Arc<Hub>, Arc<WatchedService>, Selection)>,
}

impl Hub {
    pub(super) fn new(service: ResourceService, options: DestinationOptions, answers: AnswerBytes) -> Arc<Self> {
        let (memory, watches) = (Memory::default(), Mutex::default());
        let places = Arc::new(Semaphore::new(options.max_services.min(Semaphore::MAX_PERMITS)));
        let addresses = Addresses::new(service.clone(), memory.clone());
        Arc::new(Self { service, options, answers, memory, places, addresses, watches })
    }

    /// Subscribes to an address.
    ///
    /// # Errors
    /// `Unavailable`: no plugin serves the type. `ResourceExhausted`: too many services and addresses, or too many
    /// bytes.
    pub(super) fn subscribe_address(&self, caller: &Caller, ip: IpAddr) -> Result<AddressShare, Error> {
        self.require_catalog(caller)?;
        self.check_memory()?;
        self.addresses.subscribe(ip, || self.place())
    }

    fn require_catalog(&self, caller: &Caller) -> Result<(), Error> {
        require_catalog(&self.service).map_err(|error| match caller.authorizer.has_permissions() {
            true => error,
            false => no_permissions(&*caller.authorizer),
        })
    }

    fn check_memory(&self) -> Result<(), Error> {
        let limit = self.options.state_bytes;
        if self.memory.used() <= limit {
            return Ok(());
        }
        let what = "the endpoints of the watched services take too much memory already";
        Err(exhausted(format!("{what} ({limit} bytes, limit destination.state_bytes); try again later")))
    }

    /// A place for a service or an address.
    fn place(&self) -> Result<OwnedSemaphorePermit, Error> {
        self.places.clone().try_acquire_owned().map_err(|_| {
            let limit = self.options.max_services;
            exhausted(format!("{limit} services and addresses are watched already (a fixed limit); try again later"))
        })
    }

    /// Subscribes to the view of a service.
    ///
    /// # Errors
    /// `Unavailable`: no plugin serves the type. `ResourceExhausted`: too many services, or too many bytes.
    pub(super) fn subscribe(
        self: &Arc<Self>,
        caller: &Caller,
        name: ServiceName,
        selection: Selection,
        needs_routes: bool,
    ) -> Result<Subscription, Error> {
        self.require_catalog(caller)?;
        if !name.is_possible() {
            let view = View::new(selection, self.answers.clone(), self.memory.share());
            let absent = Snapshot::default().whole().map_err(|e| unreadable(&name, &e))?;
            view.apply(1, &name, &absent);
            return Ok(Subscription { view: Arc::new(view), watched: None });
        }
        let service = self.watch(caller, name)?;
        if needs_routes {
            service.needs_routes.send_if_modified(|needed| !std::mem::replace(needed, true));
        }
        let make = || Arc::new(View::new(selection.clone(), self.answers.clone(), self.memory.share()));
        let (view, missing) = service.view(&selection, make);
        // Dropping the subscription undoes everything from here on.
        let subscription = Subscription { view, watched: Some((self.clone(), service.clone(), selection)) };
        if let Some(missing) = missing {
            self.check_memory()?;
            service.update_views(&subscription.view, missing)?;
        }
        Ok(subscription)
    }

    /// Finds or creates the watched service, and adds a stream to it.
    fn watch(self: &Arc<Self>, caller: &Caller, name: ServiceName) -> Result<Arc<WatchedService>, Error> {
        let mut watches = self.watches.lock();
        let watch = match watches.entry((name, caller.authorizer.fingerprint())) {
            Entry::Occupied(watch) => watch.into_mut(),
            Entry::Vacant(vacant) => {
                let place = self.place()?;
                let memory = self.memory.share();
                let known = Known { seen: 0, state: State::Unknown, views: HashMap::new(), memory };
                let (name, by) = vacant.key().clone();
                let needs_routes = watch::Sender::new(false);
                let service = Arc::new(WatchedService { name, by, known: Mutex::new(known), needs_routes });
                let following = FollowedService {
                    hub: Arc::downgrade(self),
                    service: self.service.clone(),
                    caller: caller.clone(),
                    watched: service.clone(),
                };
                let task = tokio::spawn(keep_open(following)).abort_handle();
                metrics::gauge!("mortise_destination_services").increment(1);
                vacant.insert(Watch { service, streams: 0, task, _place: place })
            }
        };
        watch.streams += 1;
        Ok(watch.service.clone())
    }

    /// Removes a service; later subscriptions start a new watch.
    fn remove(&self, service: &Arc<WatchedService>) {
        let mut watches = self.watches.lock();
        if let Entry::Occupied(watch) = watches.entry(service.key())
            && Arc::ptr_eq(&watch.get().service, service)
        {
            watch.remove();
            metrics::gauge!("mortise_destination_services").decrement(1);
        }
    }

    fn unsubscribe(&self, service: &Arc<WatchedService>, selection: &Selection) {
        let mut known = service.known.lock();
        if let Some(shared) = known.views.get_mut(selection) {
            shared.streams -= 1;
            if shared.streams == 0 {
                known.views.remove(selection);
            }
        }
        drop(known);
        let mut watches = self.watches.lock();
        if let Entry::Occupied(mut watch) = watches.entry(service.key())
            && Arc::ptr_eq(&watch.get().service, service)
        {
            watch.get_mut().streams -= 1;
            if watch.get().streams == 0 {
                watch.remove().task.abort();
                metrics::gauge!("mortise_destination_services").decrement(1);
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some((hub, service, selection)) = &self.watched {
            hub.unsubscribe(service, selection);
        }
    }
}

impl WatchedService {
    fn key(&self) -> WatchKey {
        (self.name.clone(), self.by)
    }

    /// Finds or creates the view of a selection, and adds a stream to it. A new view comes with the state that it has
    /// to apply.
    fn view(&self, selection: &Selection, make: impl FnOnce() -> Arc<View>) -> (Arc<View>, Option<(u64, State)>) {
        let mut known = self.known.lock();
        let state = (known.seen, known.state.clone());
        match known.views.entry(selection.clone()) {
            Entry::Occupied(shared) => {
                let shared = shared.into_mut();
                shared.streams += 1;
                (shared.view.clone(), None)
            }
            Entry::Vacant(place) => {
                let view = place.insert(SharedView { view: make(), streams: 1 }).view.clone();
                (view, Some(state))
            }
        }
    }

    fn update_views(&self, view: &View, (seen, state): (u64, State)) -> Result<(), Error> {
        match state {
            State::Unknown => Ok(()),
            State::Known(snapshot) => {
                let whole = snapshot.whole().map_err(|e| unreadable(&self.name, &e))?;
                view.apply(seen, &self.name, &whole);
                Ok(())
            }
            State::Failed(error) => Err(error),
        }
    }

    /// Applies the new state of the service.
    async fn set(&self, snapshot: Snapshot) -> Result<(), Error> {
        let before = match &self.known.lock().state {
            State::Known(before) => Some(before.clone()),
            State::Unknown | State::Failed(_) => None,
        };
        let snapshot = Arc::new(snapshot);
        let change = match &before {
            Some(before) => before.change_to(&snapshot),
            None => snapshot.whole(),
        };
        let change = change.map_err(|e| unreadable(&self.name, &e))?;
        let (seen, views) = {
            let mut known = self.known.lock();
            known.seen += 1;
            known.memory.set(snapshot.size());
            known.state = State::Known(snapshot.clone());
            (known.seen, known.views.values().map(|shared| shared.view.clone()).collect::<Vec<_>>())
        };
        for view in views {
            // A view that has not applied the state before needs all of this one.
            if !view.apply(seen, &self.name, &change) {
                self.update_views(&view, (seen, State::Known(snapshot.clone())))?;
            }
            // Other tasks get their turn between two views.
            yield_now().await;
        }
        Ok(())
    }

    fn fail(&self, error: &Error) {
        let views: Vec<_> = {
            let mut known = self.known.lock();
            known.state = State::Failed(error.clone());
            known.views.values().map(|shared| shared.view.clone()).collect()
        };
        for view in views {
            view.fail(status(error.clone()));
        }
    }
}

fn exhausted(text: String) -> Error {
    metrics::counter!("mortise_destination_streams_refused_total").increment(1);
    Error::new(Code::ResourceExhausted, text)
}

/// The task that follows a service as long as it has streams.
struct FollowedService {
    hub: Weak<Hub>,
    service: ResourceService,
    caller: Caller,
    watched: Arc<WatchedService>,
}

impl Reopened for FollowedService {
    async fn follow(&self, waits: &mut Waits) -> Result<(), Error> {
        let needs_routes = self.watched.needs_routes.subscribe();
        let mut following = Following::open(&self.service, &self.caller, &self.watched.name, needs_routes).await?;
        loop {
            let now = following.next().await?;
            waits.reset();
            self.watched.set(now).await?;
        }
    }

    fn is_known(&self) -> bool {
        matches!(self.watched.known.lock().state, State::Known(_))
    }

    fn fail(&self, error: &Error) {
        if let Some(hub) = self.hub.upgrade() {
            hub.remove(&self.watched);
        }
        self.watched.fail(error);
    }

    fn describe(&self) -> String {
        let ServiceName { namespace, name } = &self.watched.name;
        format!("the service {namespace}/{name}")
    }
}
