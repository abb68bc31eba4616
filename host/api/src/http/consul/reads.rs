//! Reads of the catalog for one question: endpoints, their slices and their workloads.
//!
//! # Contract
//! Endpoints are read as the caller, who has to have the permission. Their slices belong to them, and are read as the
//! host. Workloads are read as the caller: of one that it may not read, the instance has its address, ports and health,
//! and neither tags nor metadata nor checks.
//!
//! # Cost and limits
//! A service costs a read of its endpoints and of each slice, and a BatchGet for each [`BATCH`] workloads. A namespace
//! costs three lists. More than [`MAX_RESOURCES`] resources of a type or [`MAX_BYTES`] of them, or [`MAX_INSTANCES`]
//! instances or [`MAX_INSTANCE_BYTES`] of them, are refused.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mortise_resource::{Code, Error, data::BatchGetRequest, name, pb, types::Gvk};
use mortise_service::{Caller, ResourceService};
use prost::Message;

use super::{
    changes::{every, slot},
    instance::Instance,
};
use crate::{
    catalog::{Endpoint, EndpointSlice, ServiceEndpoints},
    endpoints::{service_endpoints, slices, workloads},
};

/// Most resources of a type in a namespace, for a question about all of them.
const MAX_RESOURCES: usize = 20_000;

/// Most instances in an answer.
const MAX_INSTANCES: usize = 20_000;

/// Most bytes of the resources of a type that are read for an answer.
const MAX_BYTES: usize = 64 << 20;

/// Most bytes of the instances of an answer in memory. A workload is an instance of each service that selects it.
const MAX_INSTANCE_BYTES: usize = 128 << 20;

/// Workloads of one BatchGet.
const BATCH: usize = 250;

/// The instances that were found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Ordered by service, workload and address.
    pub(super) instances: Vec<Instance>,
    /// Names of the services, with and without instances.
    pub(super) services: BTreeSet<String>,
    /// Slots of the resources that were read.
    pub(super) slots: Vec<u32>,
    /// Bytes of the instances in memory.
    bytes: usize,
}

/// Endpoints of a service, with its name and its labels.
struct Service {
    name: String,
    labels: BTreeMap<String, String>,
    endpoints: Vec<Endpoint>,
}

/// The reads of a question.
pub(super) struct Reads<'a> {
    pub(super) service: &'a ResourceService,
    pub(super) caller: &'a Caller,
    pub(super) tenancy: pb::Tenancy,
    pub(super) found: Found,
}

impl Reads<'_> {
    /// Reads the instances of a service; none if it does not exist.
    ///
    /// # Errors
    /// Those of Read and BatchGet, except `NotFound`. `ResourceExhausted`: too many instances.
    pub(super) async fn service(mut self, name: &str) -> Result<Found, Error> {
        // Consul's names are the same in any case.
        let name = name.to_ascii_lowercase();
        if !name::is_valid(&name) {
            return Ok(self.found);
        }
        let caller = self.caller.clone();
        let Some(head) = self.read(&caller, &service_endpoints(), &name).await? else { return Ok(self.found) };
        let head: ServiceEndpoints = decoded(&head)?;
        let mut endpoints = head.endpoints;
        let (host, mut bytes) = (self.host(), 0);
        for range in &head.slices {
            if let Some(slice) = self.read(&host, &slices(), &range.slice).await? {
                check_bytes(&mut bytes, &slice)?;
                endpoints.extend(decoded::<EndpointSlice>(&slice)?.endpoints);
            }
            check_count(endpoints.len())?;
        }
        let names = endpoints.iter().map(|endpoint| endpoint.workload.clone()).filter(|name| name::is_valid(name));
        let workloads = self.workloads(names.collect()).await?;
        self.join(Service { name, labels: head.labels.into_iter().collect(), endpoints }, &workloads)?;
        Ok(self.found)
    }

    /// Reads all instances of the namespace.
    ///
    /// # Errors
    /// Those of List. `ResourceExhausted`: too many resources or instances.
    pub(super) async fn all(mut self) -> Result<Found, Error> {
        let mut heads: BTreeMap<String, ServiceEndpoints> = BTreeMap::new();
        let caller = self.caller.clone();
        self.list(&caller, &service_endpoints(), |name, resource| {
            heads.insert(name, decoded(&resource)?);
            Ok(())
        })
        .await?;
        let listed: BTreeMap<String, String> = heads
            .iter()
            .flat_map(|(name, head)| head.slices.iter().map(|range| (range.slice.clone(), name.clone())))
            .collect();
        let (mut parts, host) = (HashMap::<String, Vec<Endpoint>>::new(), self.host());
        if !listed.is_empty() {
            self.list(&host, &slices(), |name, resource| {
                if let Some(service) = listed.get(&name) {
                    let slice: EndpointSlice = decoded(&resource)?;
                    parts.entry(service.clone()).or_default().extend(slice.endpoints);
                }
                Ok(())
            })
            .await?;
        }
        self.found.slots.push(every(&slices(), &self.tenancy));
        let mut known = HashMap::new();
        let each = |name, resource| {
            known.insert(name, resource);
            Ok(())
        };
        match self.list(&caller, &workloads(), each).await {
            Err(error) if error.code == Code::PermissionDenied => {}
            listed => listed?,
        }
        for (name, head) in heads {
            let mut endpoints = head.endpoints;
            endpoints.extend(parts.remove(&name).unwrap_or_default());
            self.join(Service { name, labels: head.labels.into_iter().collect(), endpoints }, &known)?;
        }
        Ok(self.found)
    }

    /// The host, with the consistency of the caller.
    fn host(&self) -> Caller {
        Caller::host(self.caller.consistency)
    }

    fn join(&mut self, service: Service, workloads: &HashMap<String, pb::Resource>) -> Result<(), Error> {
        let mut endpoints = service.endpoints;
        // An endpoint that moves to another slice is in both for a moment.
        endpoints.sort_by(|a, b| (&a.workload, &a.address).cmp(&(&b.workload, &b.address)));
        endpoints.dedup_by(|a, b| (&a.workload, &a.address) == (&b.workload, &b.address));
        for endpoint in endpoints {
            let workload = workloads.get(&endpoint.workload);
            let instance = Instance::new(&service.name, &service.labels, endpoint, workload)?;
            let outputs: usize = instance.checks.iter().map(|check| check.output.len()).sum();
            self.found.bytes += instance.bytes() + outputs;
            if self.found.bytes > MAX_INSTANCE_BYTES {
                return Err(exhausted(format!(
                    "the instances of this answer need more than {MAX_INSTANCE_BYTES} bytes (a fixed limit); ask for each \
                     service by its name, or use a watch of catalog.v1.ServiceEndpoints"
                )));
            }
            self.found.instances.push(instance);
        }
        check_count(self.found.instances.len())?;
        self.found.services.insert(service.name);
        Ok(())
    }

    fn id(&self, kind: &Gvk, name: &str) -> pb::Id {
        let tenancy = Some(self.tenancy.clone());
        pb::Id { uid: String::new(), name: name.to_owned(), r#type: Some(kind.to_pb()), tenancy }
    }

    /// Reads a resource; `None` if it is absent.
    async fn read(&mut self, caller: &Caller, kind: &Gvk, name: &str) -> Result<Option<pb::Resource>, Error> {
        self.found.slots.push(slot(kind, &self.tenancy, name));
        match self.service.read(caller, pb::ReadRequest { id: Some(self.id(kind, name)) }).await {
            Ok(resource) => Ok(Some(resource.decode()?)),
            Err(error) if error.code == Code::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads workloads by their names; absent ones, and those that the caller may not read, are left out.
    async fn workloads(&mut self, names: BTreeSet<String>) -> Result<HashMap<String, pb::Resource>, Error> {
        let (mut found, mut bytes) = (HashMap::new(), 0);
        let names: Vec<_> = names.into_iter().collect();
        for batch in names.chunks(BATCH) {
            self.found.slots.extend(batch.iter().map(|name| slot(&workloads(), &self.tenancy, name)));
            let ids: Vec<_> = batch.iter().map(|name| self.id(&workloads(), name)).collect();
            let request = BatchGetRequest { ids: ids.clone(), ..BatchGetRequest::default() };
            match self.service.batch_get(self.caller, request).await {
                Ok(answer) => {
                    for resource in answer.resources {
                        check_bytes(&mut bytes, &resource)?;
                        found.extend([named(resource)]);
                    }
                }
                // The caller may read some of them, perhaps.
                Err(error) if error.code == Code::PermissionDenied => {
                    for id in ids {
                        match self.service.read(self.caller, pb::ReadRequest { id: Some(id) }).await {
                            Ok(resource) => {
                                let resource = resource.decode()?;
                                check_bytes(&mut bytes, &resource)?;
                                found.extend([named(resource)]);
                            }
                            Err(error) if matches!(error.code, Code::NotFound | Code::PermissionDenied) => {}
                            Err(error) => return Err(error),
                        }
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Lists the resources of a type in the namespace.
    async fn list(
        &mut self,
        caller: &Caller,
        kind: &Gvk,
        mut each: impl FnMut(String, pb::Resource) -> Result<(), Error> + Send,
    ) -> Result<(), Error> {
        self.found.slots.push(every(kind, &self.tenancy));
        let request = pb::ListRequest {
            r#type: Some(kind.to_pb()),
            tenancy: Some(self.tenancy.clone()),
            name_prefix: String::new(),
        };
        let (mut count, mut bytes, namespace) = (0, 0, self.tenancy.namespace.clone());
        let counted = |resource: pb::Resource| {
            count += 1;
            check_bytes(&mut bytes, &resource)?;
            if count > MAX_RESOURCES {
                return Err(exhausted(format!(
                    "the namespace {namespace:?} has more than {MAX_RESOURCES} resources of {kind} (a fixed limit); ask for \
                     each service by its name"
                )));
            }
            let (name, resource) = named(resource);
            each(name, resource)
        };
        self.service.list_each(caller, request, counted).await
    }
}

fn named(resource: pb::Resource) -> (String, pb::Resource) {
    (resource.id.as_ref().map(|id| id.name.clone()).unwrap_or_default(), resource)
}

fn decoded<M: Message + Default>(resource: &pb::Resource) -> Result<M, Error> {
    let data = resource.data.as_ref().map(|data| data.value.as_slice()).unwrap_or_default();
    let name = resource.id.as_ref().map(|id| id.name.as_str()).unwrap_or_default();
    M::decode(data).map_err(|fault| Error::internal(format!("the endpoints {name} cannot be decoded: {fault}")))
}

fn check_count(instances: usize) -> Result<(), Error> {
    match instances > MAX_INSTANCES {
        false => Ok(()),
        true => Err(exhausted(format!(
            "there are more than {MAX_INSTANCES} instances (a fixed limit); use DNS, or a watch of \
             catalog.v1.ServiceEndpoints"
        ))),
    }
}

/// Counts a resource.
fn check_bytes(bytes: &mut usize, resource: &pb::Resource) -> Result<(), Error> {
    *bytes += resource.encoded_len();
    match *bytes > MAX_BYTES {
        false => Ok(()),
        true => Err(exhausted(format!(
            "the resources of this answer have more than {MAX_BYTES} bytes (a fixed limit); use DNS, or a watch of \
             catalog.v1.ServiceEndpoints"
        ))),
    }
}

fn exhausted(text: String) -> Error {
    Error::new(Code::ResourceExhausted, text)
}
