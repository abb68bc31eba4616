//! The watched addresses: the service that has a virtual address, and the workloads at an address. One watch for each
//! address, shared by any number of streams.
//!
//! # Contract
//! The watches are the host's. A stream checks itself what its caller may know of them.
//!
//! # Cost
//! Two watches for each address: of one resource by its name, and of the workloads in the index of addresses. A change
//! of other resources wakes neither.
//!
//! # Limits
//! An address takes one of the places for services (`max_services` of the options), and at most [`MAX_WORKLOADS`]
//! workloads are known.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    net::IpAddr,
    sync::{Arc, Weak},
};

use futures::{
    StreamExt as _,
    stream::{self, BoxStream, SelectAll},
};
use mortise_resource::{
    Code, Error,
    backoff::Waits,
    data::{WatchResourcesRequest, resource_change::ChangeType},
    goten::WatchType,
    pb,
    pb::watch_event::Event,
    tenancy::DEFAULT,
    types::Gvk,
};
use mortise_service::{Caller, Consistency, ResourceService};
use parking_lot::Mutex;
use prost::Message as _;
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    task::AbortHandle,
};

use super::{
    authority::ServiceName,
    memory::{Memory, MemoryShare},
    reopen::{Reopened, keep_open},
};
use crate::{
    catalog::{VirtualAddress, Workload},
    endpoints::{address_name, virtual_addresses, workloads},
};

/// Most workloads of an address; those with the first names count.
const MAX_WORKLOADS: usize = 64;

/// The watched addresses.
pub(super) struct Addresses {
    service: ResourceService,
    memory: Memory,
    watches: Mutex<HashMap<IpAddr, AddressWatch>>,
}

/// The watch of an address.
struct AddressWatch {
    address: Arc<WatchedAddress>,
    streams: usize,
    task: AbortHandle,
    _place: OwnedSemaphorePermit,
}

/// The known state of an address.
struct WatchedAddress {
    ip: IpAddr,
    state: watch::Sender<AddressState>,
    memory: Mutex<MemoryShare>,
}

/// The state of an address.
#[derive(Debug, Clone)]
pub(super) enum AddressState {
    /// Unknown so far.
    Unknown,
    Known(Arc<Holders>),
    /// The address cannot be watched.
    Failed(Error),
}

/// The resources at an address.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Holders {
    /// The service whose virtual address it is.
    pub(super) service: Option<ServiceName>,
    /// The workloads, by namespace and name.
    pub(super) workloads: BTreeMap<(String, String), Arc<Workload>>,
}

/// A stream's share in an address.
pub(super) struct AddressShare {
    addresses: Arc<Addresses>,
    address: Arc<WatchedAddress>,
    pub(super) state: watch::Receiver<AddressState>,
}

impl Addresses {
    pub(super) fn new(service: ResourceService, memory: Memory) -> Arc<Self> {
        Arc::new(Self { service, memory, watches: Mutex::default() })
    }

    /// Subscribes to an address. `place` gives a place for one that is not watched yet.
    ///
    /// # Errors
    /// Those of `place`.
    pub(super) fn subscribe(
        self: &Arc<Self>,
        ip: IpAddr,
        place: impl FnOnce() -> Result<OwnedSemaphorePermit, Error>,
    ) -> Result<AddressShare, Error> {
        let mut watches = self.watches.lock();
        let watch = match watches.entry(ip) {
            Entry::Occupied(watch) => watch.into_mut(),
            Entry::Vacant(vacant) => {
                let place = place()?;
                let state = watch::Sender::new(AddressState::Unknown);
                let memory = Mutex::new(self.memory.share());
                let address = Arc::new(WatchedAddress { ip, state, memory });
                let following = Following {
                    addresses: Arc::downgrade(self),
                    service: self.service.clone(),
                    address: address.clone(),
                };
                let task = tokio::spawn(keep_open(following)).abort_handle();
                metrics::gauge!("mortise_destination_services").increment(1);
                vacant.insert(AddressWatch { address, streams: 0, task, _place: place })
            }
        };
        watch.streams += 1;
        let address = watch.address.clone();
        let state = address.state.subscribe();
        Ok(AddressShare { addresses: self.clone(), address, state })
    }

    /// Removes an address; later subscriptions start a new watch.
    fn remove(&self, address: &Arc<WatchedAddress>, is_last: impl FnOnce(&mut AddressWatch) -> bool) {
        let mut watches = self.watches.lock();
        if let Entry::Occupied(mut watch) = watches.entry(address.ip)
            && Arc::ptr_eq(&watch.get().address, address)
            && is_last(watch.get_mut())
        {
            watch.remove().task.abort();
            metrics::gauge!("mortise_destination_services").decrement(1);
        }
    }
}

impl Drop for AddressShare {
    fn drop(&mut self) {
        self.addresses.remove(&self.address, |watch| {
            watch.streams -= 1;
            watch.streams == 0
        });
    }
}

/// The task that follows an address.
struct Following {
    addresses: Weak<Addresses>,
    service: ResourceService,
    address: Arc<WatchedAddress>,
}

impl Reopened for Following {
    async fn follow(&self, waits: &mut Waits) -> Result<(), Error> {
        let mut open = OpenWatches::open(&self.service, self.address.ip).await?;
        loop {
            let holders = open.next().await?;
            waits.reset();
            self.address.memory.lock().set(holders.size());
            self.address.state.send_if_modified(|state| {
                if matches!(state, AddressState::Known(known) if **known == holders) {
                    return false;
                }
                *state = AddressState::Known(Arc::new(holders));
                true
            });
        }
    }

    fn is_known(&self) -> bool {
        matches!(*self.address.state.borrow(), AddressState::Known(_))
    }

    fn fail(&self, error: &Error) {
        self.address.state.send_replace(AddressState::Failed(error.clone()));
        if let Some(addresses) = self.addresses.upgrade() {
            addresses.remove(&self.address, |_| true);
        }
    }

    fn describe(&self) -> String {
        format!("the address {}", self.address.ip)
    }
}

impl Holders {
    /// Size in memory, bytes.
    fn size(&self) -> usize {
        self.workloads.iter().map(|((namespace, name), data)| namespace.len() + name.len() + data.encoded_len()).sum()
    }
}

/// A change that one of the watches shows.
enum Shown {
    /// The service that has the address.
    Holder(Option<ServiceName>),
    /// A workload, or its end.
    Workload((String, String), Option<Arc<Workload>>),
    /// All changes so far form one state. The first time, the snapshot is complete.
    Current(Source),
    /// The known workloads are forgotten.
    Reset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Holder,
    Workloads,
}

type Changes = BoxStream<'static, Result<Vec<Shown>, Error>>;

/// The open watches of an address.
struct OpenWatches {
    changes: SelectAll<Changes>,
    /// The watches whose snapshots are not complete.
    missing: Vec<Source>,
    holders: Holders,
    /// Whether further workloads were left out.
    is_cut: bool,
}

impl OpenWatches {
    async fn open(service: &ResourceService, ip: IpAddr) -> Result<Self, Error> {
        let mut open =
            Self { changes: SelectAll::new(), missing: Vec::new(), holders: Holders::default(), is_cut: false };
        let has_type = |kind: &Gvk| service.types().get(&kind.to_pb()).is_some();
        if has_type(&virtual_addresses()) {
            open.changes.push(holder_changes(service, ip).await?);
            open.missing.push(Source::Holder);
        }
        if has_type(&workloads()) {
            open.changes.push(workload_changes(service, ip).await?);
            open.missing.push(Source::Workloads);
        }
        Ok(open)
    }

    /// The next state.
    async fn next(&mut self) -> Result<Holders, Error> {
        if self.changes.is_empty() {
            // Neither type exists, so no resource has an address. Later streams look again.
            return match self.missing.is_empty() {
                true => {
                    self.missing.push(Source::Holder);
                    Ok(Holders::default())
                }
                false => std::future::pending().await,
            };
        }
        loop {
            let Some(changes) = self.changes.next().await else { return Err(Error::internal("no watch is open")) };
            let mut is_current = false;
            for change in changes? {
                match change {
                    Shown::Holder(service) => self.holders.service = service,
                    Shown::Workload(_, None) if self.is_cut => {
                        return Err(Error::new(Code::Aborted, "the workloads have to be read again"));
                    }
                    Shown::Workload(id, None) => _ = self.holders.workloads.remove(&id),
                    Shown::Workload(id, Some(workload)) => {
                        self.holders.workloads.insert(id, workload);
                        if self.holders.workloads.len() > MAX_WORKLOADS {
                            self.holders.workloads.pop_last();
                            self.is_cut = true;
                        }
                    }
                    Shown::Current(source) => {
                        self.missing.retain(|missing| *missing != source);
                        is_current = true;
                    }
                    Shown::Reset => {
                        self.holders.workloads.clear();
                        self.missing.push(Source::Workloads);
                    }
                }
            }
            if is_current && self.missing.is_empty() {
                return Ok(self.holders.clone());
            }
        }
    }
}

/// Changes of the resource of a virtual address.
async fn holder_changes(service: &ResourceService, ip: IpAddr) -> Result<Changes, Error> {
    let name = address_name(ip);
    let request = pb::WatchListRequest {
        r#type: Some(virtual_addresses().to_pb()),
        tenancy: Some(pb::Tenancy { partition: DEFAULT.to_owned(), namespace: String::new() }),
        name_prefix: name.clone(),
        after: None,
    };
    let events = service.watch_list(&Caller::host(Consistency::Eventual), request).await?.only(name);
    let changes = stream::unfold(events, async |mut events| {
        let shown = events.next().await.and_then(|event| match event.event {
            Some(Event::Upsert(upsert)) => {
                Ok(vec![Shown::Holder(holder(upsert.resource)?), Shown::Current(Source::Holder)])
            }
            Some(Event::Delete(_)) => Ok(vec![Shown::Holder(None), Shown::Current(Source::Holder)]),
            Some(Event::EndOfSnapshot(_)) => Ok(vec![Shown::Current(Source::Holder)]),
            None => Ok(Vec::new()),
        });
        Some((shown, events))
    });
    Ok(changes.boxed())
}

/// The service in a VirtualAddress, unless it was released.
fn holder(resource: Option<pb::Resource>) -> Result<Option<ServiceName>, Error> {
    let data = resource.and_then(|resource| resource.data).unwrap_or_default().value;
    let VirtualAddress { namespace, service, released, .. } = VirtualAddress::decode(data.as_slice())
        .map_err(|error| Error::internal(format!("a VirtualAddress cannot be decoded: {error}")))?;
    Ok((!released).then_some(ServiceName { namespace, name: service }))
}

/// Changes of the workloads at an address.
async fn workload_changes(service: &ResourceService, ip: IpAddr) -> Result<Changes, Error> {
    let request = WatchResourcesRequest {
        resource_type: Some(workloads().to_pb()),
        tenancy: Some(pb::Tenancy { partition: DEFAULT.to_owned(), namespace: "*".to_owned() }),
        filter: format!("data.addresses.host = \"{ip}\""),
        r#type: WatchType::Stateless.into(),
        ..WatchResourcesRequest::default()
    };
    let changes = service.watch_resources(&Caller::host(Consistency::Eventual), request).await?;
    let changes = stream::unfold(Box::new(changes), async |mut changes| {
        let shown = changes.next().await.and_then(|message| {
            let mut shown = Vec::new();
            if message.is_hard_reset || message.is_soft_reset {
                shown.push(Shown::Reset);
            }
            for change in message.changes.into_iter().filter_map(|change| change.change_type) {
                shown.extend(workload(change)?);
            }
            if message.is_current {
                shown.push(Shown::Current(Source::Workloads));
            }
            Ok(shown)
        });
        Some((shown, changes))
    });
    Ok(changes.boxed())
}

fn workload(change: ChangeType) -> Result<Option<Shown>, Error> {
    let key = |id: Option<pb::Id>| {
        let id = id.unwrap_or_default();
        (id.tenancy.unwrap_or_default().namespace, id.name)
    };
    let resource = match change {
        ChangeType::Removed(removed) => return Ok(Some(Shown::Workload(key(removed.name), None))),
        ChangeType::Current(current) => current.resource,
        ChangeType::Added(added) => added.resource,
        ChangeType::Modified(modified) => modified.resource,
    };
    let Some(resource) = resource else { return Ok(None) };
    let data = resource.data.unwrap_or_default().value;
    let workload = Workload::decode(data.as_slice())
        .map_err(|error| Error::internal(format!("a Workload cannot be decoded: {error}")))?;
    // A client of the address needs neither of these, and they may be large.
    let workload = Workload { checks: Vec::new(), inbound: Vec::new(), ..workload };
    Ok(Some(Shown::Workload(key(resource.id), Some(Arc::new(workload)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_address_has_no_service() {
        let of = |released| {
            let address = VirtualAddress { service: "web".to_owned(), released, ..VirtualAddress::default() };
            let data = Some(prost_types::Any { value: address.encode_to_vec(), ..Default::default() });
            holder(Some(pb::Resource { data, ..pb::Resource::default() })).unwrap().map(|found| found.name)
        };
        assert_eq!((of(false).as_deref(), of(true)), (Some("web"), None));
    }
}
