//! Follows one service: its Service, its ServiceEndpoints, its slices and its routes.
//!
//! # Contract
//! - A service exists if its Service does, or if a client wrote ServiceEndpoints without one.
//! - The watch of the ServiceEndpoints is the caller's; it decides whether the caller learns of the service at all. The
//!   others are the host's.
//! - A state is passed on once it is settled: all snapshots are complete, the endpoints of a Service with a selector
//!   are there, and so is each slice that they list. A state that does not settle within [`SETTLE_TIME`] counts as it
//!   is. So a service whose endpoints are about to be computed, or were removed by hand, does not look empty meanwhile.
//!
//! # Cost
//! Two watches for each service, a third while it has slices, and one for its routes from the first stream on that
//! needs them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{
    StreamExt as _,
    stream::{self, BoxStream, SelectAll},
};
use mortise_resource::{Code, Error, pb, pb::watch_event::Event, types::Gvk};
use mortise_service::{Caller, Consistency, ResourceService};
use prost::Message as _;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    authority::ServiceName,
    state::{HEAD, Snapshot, facts},
};
use crate::{
    catalog::{EndpointSlice, Service, ServiceEndpoints, ServiceRoutes},
    endpoints::{service_endpoints, service_routes, services, slices},
};

/// The partition of all services.
const SERVICE_PARTITION: &str = "default";

/// Longest time for which a state may wait for the endpoints or slices that belong to it.
pub(super) const SETTLE_TIME: Duration = Duration::from_secs(5);

/// Most characters of a service's name in the names of its slices, and characters of the hash behind it and a dash.
const MAX_SLICE_PREFIX: usize = 54;
const SLICE_SUFFIX_CHARACTERS: usize = 8;

/// The parts of a service that are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Definition,
    Endpoints,
    Slices,
    Routes,
}

type Events = SelectAll<BoxStream<'static, (Source, Result<pb::WatchEvent, Error>)>>;

/// The watches of a service, and the state that they have shown so far.
pub(super) struct Following {
    service: ResourceService,
    name: ServiceName,
    events: Events,
    parts: Parts,
    /// When the state counts as settled in any case; `None` while it is settled.
    until: Option<Instant>,
    /// Whether the last state was passed on without being settled: then later ones are, too, until one is settled.
    is_late: bool,
    /// Whether a stream needs the routes.
    needs_routes: watch::Receiver<bool>,
}

/// The state of the watched resources.
#[derive(Default)]
struct Parts {
    /// Whether the caller may read the endpoints of this name.
    is_readable: bool,
    /// Watches whose snapshots are complete, of those that were opened.
    complete: usize,
    opened: usize,
    follows_slices: bool,
    definition: Option<Service>,
    endpoints: Option<(ServiceEndpoints, Arc<[u8]>)>,
    slices: BTreeMap<String, Arc<[u8]>>,
    follows_routes: bool,
    routes: Option<Arc<ServiceRoutes>>,
}

impl Following {
    /// Opens the watches.
    ///
    /// # Errors
    /// Those of a watch.
    pub(super) async fn open(
        service: &ResourceService,
        caller: &Caller,
        name: &ServiceName,
        needs_routes: watch::Receiver<bool>,
    ) -> Result<Self, Error> {
        let mut following = Self {
            service: service.clone(),
            name: name.clone(),
            events: SelectAll::new(),
            parts: Parts::default(),
            until: None,
            is_late: false,
            needs_routes,
        };
        following.watch(Source::Endpoints, caller).await?;
        following.parts.is_readable = is_readable(service, caller, name).await?;
        let has_type = |kind: &Gvk| service.types().get(&kind.to_pb()).is_some();
        if following.parts.is_readable && has_type(&services()) {
            following.watch(Source::Definition, &Caller::host(Consistency::Eventual)).await?;
        }
        Ok(following)
    }

    /// The next state that is settled.
    ///
    /// # Errors
    /// A watch ended, or a resource cannot be decoded.
    pub(super) async fn next(&mut self) -> Result<Snapshot, Error> {
        loop {
            if !self.parts.follows_routes && *self.needs_routes.borrow_and_update() {
                self.follow_routes().await?;
            }
            let until = self.until;
            let settled = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = self.events.next() => {
                    let Some((source, event)) = event else { return Err(Error::internal("no watch is open")) };
                    self.apply(source, event?)?;
                }
                // An error means that no stream is left.
                Ok(()) = self.needs_routes.changed() => continue,
                () = settled => {
                    (self.until, self.is_late) = (None, true);
                    return Ok(self.parts.snapshot());
                }
            }
            if self.parts.complete < self.parts.opened {
                continue;
            }
            if self.parts.lists_slices() && !self.parts.follows_slices {
                self.parts.follows_slices = true;
                self.watch(Source::Slices, &Caller::host(Consistency::Eventual)).await?;
                continue;
            }
            let is_settled = self.parts.is_settled();
            if is_settled || self.is_late {
                (self.until, self.is_late) = (None, !is_settled);
                return Ok(self.parts.snapshot());
            }
            self.until.get_or_insert_with(|| Instant::now() + SETTLE_TIME);
        }
    }

    /// Begins to follow the routes of the service. A service of a name that the caller may not read has none.
    async fn follow_routes(&mut self) -> Result<(), Error> {
        self.parts.follows_routes = true;
        if !self.parts.is_readable || self.service.types().get(&service_routes().to_pb()).is_none() {
            self.parts.routes = Some(Arc::default());
            // Without a watch no event comes, so the known state is passed on again.
            if self.parts.complete == self.parts.opened {
                self.until.get_or_insert_with(Instant::now);
            }
            return Ok(());
        }
        self.watch(Source::Routes, &Caller::host(Consistency::Eventual)).await
    }

    async fn watch(&mut self, source: Source, caller: &Caller) -> Result<(), Error> {
        let ServiceName { namespace, name } = &self.name;
        let (kind, prefix) = match source {
            Source::Definition => (services(), name.clone()),
            Source::Endpoints => (service_endpoints(), name.clone()),
            Source::Slices => (slices(), slice_prefix(name)),
            Source::Routes => (service_routes(), name.clone()),
        };
        let request = pb::WatchListRequest {
            r#type: Some(kind.to_pb()),
            tenancy: Some(pb::Tenancy { partition: SERVICE_PARTITION.to_owned(), namespace: namespace.clone() }),
            name_prefix: prefix,
            after: None,
        };
        let events = self.service.watch_list(caller, request).await?;
        let events = if source == Source::Slices { events } else { events.only(name.clone()) };
        let events = stream::unfold(events, move |mut events| async move {
            let event = events.next().await;
            Some(((source, event), events))
        });
        self.events.push(events.boxed());
        self.parts.opened += 1;
        Ok(())
    }

    fn apply(&mut self, source: Source, event: pb::WatchEvent) -> Result<(), Error> {
        let (resource, is_there) = match event.event {
            Some(Event::Upsert(upsert)) => (upsert.resource, true),
            Some(Event::Delete(delete)) => (delete.resource, false),
            Some(Event::EndOfSnapshot(_)) => {
                self.parts.complete += 1;
                if source == Source::Routes {
                    self.parts.routes.get_or_insert_default();
                }
                return Ok(());
            }
            None => return Ok(()),
        };
        let resource = resource.unwrap_or_default();
        let data = resource.data.unwrap_or_default().value;
        let unreadable = |error| unreadable(&self.name, &error);
        match source {
            Source::Definition => {
                let decoded = is_there.then(|| Service::decode(data.as_slice())).transpose();
                self.parts.definition = decoded.map_err(unreadable)?;
            }
            Source::Endpoints => {
                let decoded = is_there.then(|| ServiceEndpoints::decode(data.as_slice())).transpose();
                self.parts.endpoints = decoded.map_err(unreadable)?.map(|endpoints| (endpoints, data.into()));
            }
            Source::Routes => {
                let decoded = is_there.then(|| ServiceRoutes::decode(data.as_slice())).transpose();
                self.parts.routes = Some(Arc::new(decoded.map_err(unreadable)?.unwrap_or_default()));
            }
            Source::Slices => {
                let slice = resource.id.unwrap_or_default().name;
                // Slices of services with longer names begin alike; they are not decoded.
                if slice.len() != slice_prefix(&self.name.name).len() + SLICE_SUFFIX_CHARACTERS {
                    return Ok(());
                }
                let of = EndpointSlice::decode(data.as_slice()).map_err(unreadable)?.service;
                if is_there && of == self.name.name {
                    self.parts.slices.insert(slice, data.into());
                } else {
                    self.parts.slices.remove(&slice);
                }
            }
        }
        Ok(())
    }
}

impl Parts {
    fn lists_slices(&self) -> bool {
        self.endpoints.as_ref().is_some_and(|(endpoints, _)| !endpoints.slices.is_empty())
    }

    fn is_settled(&self) -> bool {
        let is_computed = || self.definition.as_ref().is_some_and(|service| service.selector.is_some());
        match &self.endpoints {
            None => !is_computed(),
            Some((endpoints, _)) => endpoints.slices.iter().all(|range| self.slices.contains_key(&range.slice)),
        }
    }

    /// The present state: the endpoints, and the slices that they list. Endpoints are in their new slice before they
    /// leave their former one.
    fn snapshot(&self) -> Snapshot {
        if !self.is_readable {
            return Snapshot::default();
        }
        let endpoints = self.endpoints.as_ref();
        let facts = facts(self.definition.as_ref(), endpoints.map(|(endpoints, _)| endpoints), self.routes.clone());
        let mut parts = BTreeMap::new();
        if let Some((decoded, head)) = endpoints {
            parts.insert(HEAD.to_owned(), head.clone());
            let listed = decoded.slices.iter().filter_map(|range| self.slices.get_key_value(&range.slice));
            parts.extend(listed.map(|(name, part)| (name.clone(), part.clone())));
        }
        Snapshot { facts, parts }
    }
}

/// Beginning of the names of a service's slices.
fn slice_prefix(service: &str) -> String {
    format!("{}-", service.get(..MAX_SLICE_PREFIX).unwrap_or(service))
}

/// Whether the caller may read the endpoints of a service, existing or not.
pub(super) async fn is_readable(service: &ResourceService, caller: &Caller, name: &ServiceName) -> Result<bool, Error> {
    let id = pb::Id {
        uid: String::new(),
        name: name.name.clone(),
        r#type: Some(service_endpoints().to_pb()),
        tenancy: Some(pb::Tenancy { partition: SERVICE_PARTITION.to_owned(), namespace: name.namespace.clone() }),
    };
    match service.read(caller, pb::ReadRequest { id: Some(id) }).await {
        Ok(_) => Ok(true),
        Err(error) if error.code == Code::NotFound => Ok(true),
        Err(error) if error.code == Code::PermissionDenied => Ok(false),
        Err(error) => Err(error),
    }
}

/// The error for a resource of another message.
pub(super) fn unreadable(name: &ServiceName, error: &prost::DecodeError) -> Error {
    let ServiceName { namespace, name } = name;
    Error::internal(format!("the endpoints of the service {namespace}/{name} cannot be decoded: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Endpoint, SliceRange};

    /// A service with an endpoint beside a slice.
    fn parts(is_readable: bool) -> Parts {
        let range = SliceRange { slice: "web-00000001".to_owned(), from: "w".to_owned() };
        let endpoints =
            ServiceEndpoints { endpoints: vec![Endpoint::default()], slices: vec![range], ..Default::default() };
        let bytes = endpoints.encode_to_vec().into();
        Parts { is_readable, endpoints: Some((endpoints, bytes)), ..Parts::default() }
    }

    /// Endpoints that moved to the slice would be missing.
    #[test]
    fn a_state_is_settled_with_each_slice_that_its_endpoints_list() {
        let mut parts = parts(true);
        assert!(!parts.is_settled());
        parts.slices.insert("web-00000002".to_owned(), Arc::default());
        assert!(!parts.is_settled());
        parts.slices.insert("web-00000001".to_owned(), Arc::default());
        assert!(parts.is_settled());
        assert_eq!(parts.snapshot().parts.into_keys().collect::<Vec<_>>(), [HEAD, "web-00000001"]);
    }

    #[test]
    fn what_the_caller_may_not_read_is_absent() {
        assert!(parts(true).snapshot().facts.is_some());
        let hidden = parts(false).snapshot();
        assert!(hidden.facts.is_none() && hidden.parts.is_empty());
    }
}
