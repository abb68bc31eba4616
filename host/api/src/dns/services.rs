//! Answers about services, from the catalog.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use hickory_proto::{
    op::ResponseCode,
    rr::{Name, RecordType},
};
use mortise_resource::grpc::catalog::{EndpointSlice, Service, ServiceEndpoints, SliceRange};
use mortise_service::{Caller, Consistency, Origin, Remote, ResourceService, Source, Surface};
use prost::Message as _;

use super::{
    DnsOptions,
    answer::Question,
    cache::{Answers, Key, Known},
    hosts::{self, Hosts},
    large::{Large, Thread, Transport},
    name::{Part, Zones},
    narrow::ZonePreference,
    packed::Packed,
    reads::{Reads, data_of},
    reverse,
};
use crate::endpoints::{Layout, require_catalog, service_endpoints, slices};

/// Bytes of the smallest record in an answer about a service: a compressed name, ten fixed bytes, and an address.
const MIN_RECORD_BYTES: usize = 16;

/// Size of a service's endpoints, bytes, from which on they are decoded on a thread of their own for a datagram:
/// hundreds of endpoints take as long as dozens of usual queries.
const LARGE_SERVICE_BYTES: usize = 32 << 10;

/// Most slices of a service of which each answer reads every part. Of a larger service it reads parts until the answer
/// has no more room, and near endpoints are looked for in so many parts.
const MAX_WHOLE_SLICES: usize = 16;

/// Most parts of a larger service that an answer reads, for records that few endpoints have.
const MAX_PARTS: usize = 64;

/// Longest time to live that a service may ask for, seconds, as the plugin `catalog` has it.
const MAX_TTL: i64 = 3_600;

/// The client of a query, and the room for its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Client {
    pub(super) address: SocketAddr,
    pub(super) transport: Transport,
    /// Largest answer, bytes.
    pub(super) room: usize,
}

/// The outcome of a question about a service or an address.
#[derive(Debug)]
pub(super) enum Found {
    /// The records; none if the name has no record of the type.
    Records(Arc<Packed>),
    /// All places for large answers over UDP are taken: the client has to ask over TCP.
    Busy,
}

/// Answers questions about services.
pub(super) struct Services {
    service: ResourceService,
    ttl: u32,
    zone: Name,
    short_zone: Option<Name>,
    near: Arc<ZonePreference>,
    answers: Answers,
    large: Large,
    hosts: Hosts,
}

impl Services {
    pub(super) fn new(service: ResourceService, options: &DnsOptions) -> Self {
        Self {
            service,
            ttl: options.ttl,
            zone: options.zone.clone(),
            short_zone: options.short_zone.clone(),
            near: Arc::new(options.preference.clone()),
            answers: Answers::new(),
            large: Large::new(options.queries),
            hosts: Hosts::new(options.queries),
        }
    }

    /// Answers a question about a service.
    ///
    /// # Errors
    /// The code of the answer: NXDOMAIN, REFUSED, SERVFAIL.
    pub(super) async fn answer(
        &self,
        question: Question,
        (namespace, service): (&str, &str),
        client: Client,
    ) -> Result<Found, ResponseCode> {
        // Without the plugin the stored health is that of some earlier time.
        require_catalog(&self.service).map_err(|_| ResponseCode::ServFail)?;
        let record_type = question.record_type;
        let found = self.find(question, namespace, service, client).await?;
        let Found::Records(records) = &found else { return Ok(found) };
        let (Some(host), RecordType::A | RecordType::AAAA) = (records.host(), record_type) else { return Ok(found) };
        let zones = Zones { whole: &self.zone, short: self.short_zone.as_ref() };
        if zones.has(host) {
            // The system's resolver may ask this server, for ever.
            return Ok(found);
        }
        let addresses = self.hosts.addresses(host, client.transport).await;
        let ttl = self.ttl.min(hosts::MAX_TTL);
        Ok(Found::Records(Arc::new(Packed::clone(records).with_addresses(record_type, ttl, &addresses))))
    }

    /// Returns the names of an address in the zone; `None` if the catalog does not have it.
    ///
    /// # Errors
    /// The code of the answer.
    pub(super) async fn names(&self, ip: IpAddr, client: Client) -> Result<Option<Found>, ResponseCode> {
        require_catalog(&self.service).map_err(|_| ResponseCode::ServFail)?;
        let Some(thread) = self.large.thread(true, client.transport) else { return Ok(Some(Found::Busy)) };
        let names = reverse::names(&self.service, &self.caller(client), ip, &self.zone, &thread).await?;
        let records = reverse::pack(&names, self.ttl);
        Ok((!records.is_empty()).then(|| Found::Records(Arc::new(records))))
    }

    /// The caller of all queries, which have no tokens.
    fn caller(&self, client: Client) -> Caller {
        let caller = match self.service.access() {
            Some(access) => Caller::new(access.dns().clone(), Consistency::Eventual),
            None => Caller::host(Consistency::Eventual),
        };
        let origin = Origin::new(Surface::Dns, Remote::from_address(client.address), None);
        caller.with_source(Source::from_address(client.address.ip())).from(Some(Arc::new(origin)))
    }

    async fn find(
        &self,
        question: Question,
        namespace: &str,
        service: &str,
        client: Client,
    ) -> Result<Found, ResponseCode> {
        let mut reads = Reads::begin(&self.service, namespace);
        let Some(head) = reads.read_as(&self.caller(client), &service_endpoints(), service).await? else {
            // The service may exist without endpoints, because they are not computed yet, or its author writes them and
            // has not. A caller that may read the endpoints may know that.
            let Some(declared) = reads.service(service).await? else { return Err(ResponseCode::NXDomain) };
            let ttl = self.ttl_of(Some(&declared));
            let none = ServiceEndpoints { ports: declared.ports, ..ServiceEndpoints::default() };
            return packed(&question, &Gathered { endpoints: none, is_whole: true }, ttl, &self.near)
                .map(Found::Records);
        };
        let form = question.form();
        let key = form.map(|form| Key { namespace: namespace.to_owned(), service: service.to_owned(), form });
        if let Some(key) = &key
            && let Some(known) = self.answers.get(key)
        {
            if reads.still_hold(&known.basis).await? {
                metrics::counter!("mortise_dns_answers_kept_total").increment(1);
                return Ok(Found::Records(known.records));
            }
            self.answers.remove(key);
        }
        let head = data_of(&head)?;
        let layout = Layout::decode(head.as_slice()).map_err(|_| ResponseCode::ServFail)?;
        let is_large = question.needs_endpoints() && (head.len() > LARGE_SERVICE_BYTES || !layout.slices.is_empty());
        let Some(thread) = self.large.thread(is_large, client.transport) else { return Ok(Found::Busy) };
        let ttl = self.ttl_of(reads.service(service).await?.as_ref());
        let room = client.room / MIN_RECORD_BYTES + 1;
        let enough = if layout.slices.len() <= MAX_WHOLE_SLICES { usize::MAX } else { room };
        let gathered = if question.needs_endpoints() {
            gather(&mut reads, &question, head, &layout, (enough, &self.near), &thread).await?
        } else {
            Gathered { endpoints: ServiceEndpoints::default(), is_whole: true }
        };
        let (is_whole, near) = (gathered.is_whole, self.near.clone());
        let records = thread.run(move || packed(&question, &gathered, ttl, &near)).await?;
        if let Some(key) = key.filter(|_| is_whole) {
            self.answers.put(key, Known { records: records.clone(), basis: reads.into_basis() });
        }
        Ok(Found::Records(records))
    }

    /// The time to live of a service's records.
    fn ttl_of(&self, declared: Option<&Service>) -> u32 {
        let own = declared.and_then(|declared| declared.dns_ttl.as_ref());
        own.map_or(self.ttl, |own| u32::try_from(own.seconds.clamp(0, MAX_TTL)).unwrap_or(self.ttl))
    }
}

/// Endpoints of a service.
struct Gathered {
    endpoints: ServiceEndpoints,
    /// Whether all parts that the question is about were read.
    is_whole: bool,
}

/// Makes the records. A name may exist in a part that was not read.
fn packed(
    question: &Question,
    gathered: &Gathered,
    ttl: u32,
    near: &ZonePreference,
) -> Result<Arc<Packed>, ResponseCode> {
    match question.pack(&gathered.endpoints, ttl, near) {
        None if gathered.is_whole => Err(ResponseCode::NXDomain),
        records => Ok(Arc::new(records.unwrap_or_default())),
    }
}

/// Reads the parts of a service in random order, until they have enough endpoints for the answer; of a workload, the
/// part that has it is.
async fn gather(
    reads: &mut Reads<'_>,
    question: &Question,
    head: Vec<u8>,
    layout: &Layout,
    (enough, near): (usize, &ZonePreference),
    thread: &Thread,
) -> Result<Gathered, ResponseCode> {
    // A workload may be in either of its two parts, so both are read.
    let enough = if matches!(question.part, Part::Workload(_)) { usize::MAX } else { enough };
    let decode = move || ServiceEndpoints::decode(head.as_slice()).map_err(|_| ResponseCode::ServFail);
    let mut known = thread.run(decode).await?;
    let mut of_head = Some(std::mem::take(&mut known.endpoints));
    let mut parts: Vec<Option<&SliceRange>> = match &question.part {
        Part::Workload(workload) => vec![layout.slice_of(workload), None],
        Part::Whole | Part::Service | Part::Protocol | Part::Port(_) => {
            std::iter::once(None).chain(layout.slices.iter().map(Some)).collect()
        }
    };
    fastrand::shuffle(&mut parts);
    parts.dedup();
    let (mut read, mut wanted, mut wanted_near) = (0, 0, 0);
    for part in parts.iter().take(MAX_PARTS) {
        let found = match part {
            None => of_head.take().unwrap_or_default(),
            Some(range) => match reads.read_data(&slices(), &range.slice).await? {
                Some(slice) => {
                    let decode = move || EndpointSlice::decode(slice.as_slice()).map_err(|_| ResponseCode::ServFail);
                    thread.run(decode).await?.endpoints
                }
                None => Vec::new(),
            },
        };
        read += 1;
        for endpoint in found.iter().filter(|endpoint| question.wants(endpoint)) {
            wanted += 1;
            wanted_near += usize::from(near.is_near(endpoint));
        }
        known.endpoints.extend(found);
        if wanted_near >= enough || (wanted >= enough && read >= MAX_WHOLE_SLICES) {
            break;
        }
    }
    Ok(Gathered { endpoints: known, is_whole: read == parts.len() })
}
