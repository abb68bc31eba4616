//! Turns the bytes of a query into the bytes of its answer.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, ResponseCode},
    rr::{
        DNSClass, Name, RData, Record, RecordType,
        rdata::{NS, SOA},
    },
};
use mortise_resource::{
    Code,
    grpc::catalog::{EndpointSlice, Service, ServiceEndpoints, SliceRange},
    pb,
    tenancy::DEFAULT,
};
use mortise_service::{Caller, Consistency, Origin, Remote, ResourceService, Source, Surface};
use prost::Message as _;
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::{
    DnsOptions,
    answer::{self, MAX_RECORDS, Question, Records},
    name::{Part, Subject, Zones, parse_name},
};
use crate::endpoints::{Layout, is_healthy};

/// Largest answer over UDP, bytes: what passes most networks in one piece (DNS Flag Day 2020).
const MAX_UDP_BYTES: u16 = 1_232;

/// Largest answer over UDP to a client without EDNS (RFC 1035).
const MAX_PLAIN_UDP_BYTES: usize = 512;

/// Bytes of the smallest record in an answer about a service: a compressed name, ten fixed bytes, and an address.
const MIN_RECORD_BYTES: usize = 16;

/// Size of a service's endpoints, bytes, from which on they are decoded on a thread of their own for a datagram:
/// hundreds of endpoints take as long as dozens of usual queries.
const LARGE_SERVICE_BYTES: usize = 32 << 10;

/// Small answers for each large one that is made at the same time. A large answer may take 20 ms of a processor, so
/// dozens of them at once would delay everything else.
const SMALL_FOR_LARGE: usize = 16;

/// Number of large answers at the same time, beside so many small ones.
pub(super) fn large_answers(queries: usize) -> usize {
    (queries / SMALL_FOR_LARGE).max(1)
}

/// The host itself, for what belongs to endpoints that the caller may read.
fn host() -> Caller {
    Caller::host(Consistency::Eventual)
}

/// The transport of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// Answers queries.
pub(super) struct Resolver {
    service: ResourceService,
    options: DnsOptions,
    /// The address of this server, unless it listens on all addresses.
    own: Option<IpAddr>,
    large: LargeServices,
}

/// The places for large services over UDP. Over TCP, each answer is made on a thread of its own already.
struct LargeServices(Arc<Semaphore>);

/// The answer to a question.
struct Lookup {
    code: ResponseCode,
    records: Records,
    /// Whether the zone's SOA accompanies an empty answer.
    with_soa: bool,
    /// Whether the client has to ask over TCP.
    is_truncated: bool,
}

impl Lookup {
    fn code(code: ResponseCode) -> Self {
        Self { code, records: Records::default(), with_soa: code == ResponseCode::NXDomain, is_truncated: false }
    }

    /// An answer with records, or an empty one if the name has no record of the type.
    fn records(records: Records) -> Self {
        let with_soa = records.answers.is_empty();
        Self { code: ResponseCode::NoError, records, with_soa, is_truncated: false }
    }

    /// An answer without records, which asks the client for a query over TCP.
    fn truncated() -> Self {
        Self { is_truncated: true, ..Self::code(ResponseCode::NoError) }
    }

    fn record(record: Record) -> Self {
        Self::records(Records { answers: vec![record], additionals: Vec::new() })
    }
}

impl Resolver {
    pub(super) fn new(service: ResourceService, options: DnsOptions, local: SocketAddr) -> Self {
        let own = Some(local.ip()).filter(|ip| !ip.is_unspecified());
        let large = LargeServices::new(options.queries);
        Self { service, options, own, large }
    }

    /// The answer to a query, and its code; `None` if the bytes are not a query and get no answer.
    pub(super) async fn answer(
        &self,
        query: &[u8],
        from: SocketAddr,
        by: Transport,
    ) -> Option<(Vec<u8>, ResponseCode)> {
        // A header has twelve bytes. Messages marked as answers are ignored, or two servers could answer each other for
        // ever.
        let (Some(&[high, low]), Some(flags)) = (query.first_chunk::<2>(), query.get(2)) else { return None };
        if query.len() < 12 || flags & 0x80 != 0 {
            return None;
        }
        let Ok(query) = Message::from_vec(query) else {
            let refused = Message::error_msg(u16::from_be_bytes([high, low]), OpCode::Query, ResponseCode::FormErr);
            return Some((refused.to_vec().ok()?, ResponseCode::FormErr));
        };
        let mut reply = Message::new(query.metadata.id, MessageType::Response, query.metadata.op_code);
        reply.metadata.recursion_desired = query.metadata.recursion_desired;
        reply.add_queries(query.queries.iter().cloned());
        if query.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(MAX_UDP_BYTES);
            reply.set_edns(edns);
        }
        let room = match (by, &query.edns) {
            (Transport::Tcp, _) => usize::from(u16::MAX),
            (Transport::Udp, None) => MAX_PLAIN_UDP_BYTES,
            (Transport::Udp, Some(edns)) => usize::from(edns.max_payload().min(MAX_UDP_BYTES)).max(MAX_PLAIN_UDP_BYTES),
        };
        // One record more than fits, which shows that the answer is truncated.
        let max_records = MAX_RECORDS.min(room / MIN_RECORD_BYTES + 1);
        let zones = Zones { whole: &self.options.zone, short: self.options.short_zone.as_ref() };
        let asked = query.queries.first().map(|question| parse_name(zones, question.name()));
        let (subject, zone) = asked.unwrap_or((Subject::Elsewhere, zones.whole));
        let lookup = self.look_up(&query, (subject, zone), from, by, max_records).await;
        reply.metadata.response_code = lookup.code;
        reply.metadata.authoritative = matches!(lookup.code, ResponseCode::NoError | ResponseCode::NXDomain);
        reply.add_answers(lookup.records.answers);
        reply.add_additionals(lookup.records.additionals);
        if lookup.with_soa {
            reply.add_authority(self.soa(zone));
        }
        if lookup.is_truncated {
            return Some((reply.truncate().to_vec().ok()?, lookup.code));
        }
        Some((encode_within(reply, room, by)?, lookup.code))
    }

    /// Answers a query about the subject of its name, in that zone.
    async fn look_up(
        &self,
        query: &Message,
        (subject, zone): (Subject, &Name),
        from: SocketAddr,
        by: Transport,
        max_records: usize,
    ) -> Lookup {
        if query.metadata.op_code != OpCode::Query {
            return Lookup::code(ResponseCode::NotImp);
        }
        let [question] = query.queries.as_slice() else { return Lookup::code(ResponseCode::FormErr) };
        if query.edns.as_ref().is_some_and(|edns| edns.version() > 0) {
            return Lookup::code(ResponseCode::BADVERS);
        }
        let is_transfer = matches!(question.query_type(), RecordType::AXFR | RecordType::IXFR);
        if !matches!(question.query_class(), DNSClass::IN | DNSClass::ANY) || is_transfer {
            return Lookup::code(ResponseCode::Refused);
        }
        let (name, query_type, ttl) = (question.name(), question.query_type(), self.options.ttl);
        match subject {
            Subject::Elsewhere => Lookup::code(ResponseCode::Refused),
            Subject::Nothing => Lookup::code(ResponseCode::NXDomain),
            Subject::Apex | Subject::Server | Subject::Empty if query_type == RecordType::ANY => {
                Lookup::record(answer::any(name, ttl))
            }
            Subject::Empty => Lookup::records(Records::default()),
            Subject::Apex => match query_type {
                RecordType::SOA => {
                    let mut soa = self.soa(zone);
                    soa.name.clone_from(name);
                    Lookup::record(soa)
                }
                RecordType::NS => {
                    let ns = self.server_name();
                    let additionals = self.own.map(|ip| answer::address(ns.clone(), ttl, ip)).into_iter().collect();
                    let answers = vec![Record::from_rdata(name.clone(), ttl, RData::NS(NS(ns)))];
                    Lookup::records(Records { answers, additionals })
                }
                _ => Lookup::records(Records::default()),
            },
            Subject::Server => {
                let own = self.own.map(|ip| answer::address(name.clone(), ttl, ip));
                let answers = own.into_iter().filter(|record| record.record_type() == query_type).collect();
                Lookup::records(Records { answers, additionals: Vec::new() })
            }
            Subject::Service { namespace, service, part } => {
                let is_short = self.options.short_zone.as_ref() == Some(zone);
                let labels = format!("{service}.{namespace}{}", if is_short { "" } else { ".svc" });
                let whole = name_in(zone, &labels);
                let question =
                    Question { name: name.clone(), record_type: query_type, part, service: whole, ttl, max_records };
                let lookup = self.of_service(question, &namespace, &service, from, by).await;
                lookup.unwrap_or_else(Lookup::code)
            }
        }
    }

    /// The name of this server, which both zones have.
    fn server_name(&self) -> Name {
        name_in(&self.options.zone, "ns.dns")
    }

    async fn of_service(
        &self,
        question: Question,
        namespace: &str,
        service: &str,
        from: SocketAddr,
        by: Transport,
    ) -> Result<Lookup, ResponseCode> {
        let source = Source::from_address(from.ip());
        let caller = match self.service.access() {
            Some(access) => Caller::new(access.dns().clone(), Consistency::Eventual),
            None => Caller::host(Consistency::Eventual),
        };
        let origin = Origin::new(Surface::Dns, Remote::from_address(from), None);
        let caller = caller.with_source(source).from(Some(Arc::new(origin)));
        if let Some(found) = self.read(&caller, "ServiceEndpoints", namespace, service).await? {
            let head = found.data.unwrap_or_default().value;
            let layout = Layout::decode(head.as_slice()).map_err(|_| ResponseCode::ServFail)?;
            if layout.slices.is_empty() {
                return self.large.answer(question, head, by).await;
            }
            return self.of_slices(question, namespace, &head, &layout, by).await;
        }
        // A service may exist without endpoints: they are not computed yet, or its author has not written them. A
        // caller that may read the endpoints may know that.
        let Some(found) = self.read(&host(), "Service", namespace, service).await? else {
            return Err(ResponseCode::NXDomain);
        };
        let declared = Service::decode(found.data.unwrap_or_default().value.as_slice());
        let declared = declared.map_err(|_| ResponseCode::ServFail)?;
        let none = ServiceEndpoints { ports: declared.ports, ..ServiceEndpoints::default() };
        question.answer(&none).map(Lookup::records).ok_or(ResponseCode::NXDomain)
    }

    /// Answers about a service with slices. Its parts (the head and the slices) are read in random order, until they
    /// have as many healthy endpoints as the answer may have records. For a workload, only the head and its slice are
    /// read.
    async fn of_slices(
        &self,
        question: Question,
        namespace: &str,
        head: &[u8],
        layout: &Layout,
        by: Transport,
    ) -> Result<Lookup, ResponseCode> {
        let _turn = match by {
            Transport::Udp => match self.large.0.clone().try_acquire_owned() {
                Ok(turn) => Some(turn),
                Err(_) => return Ok(Lookup::truncated()),
            },
            // Over TCP the connection has one already.
            Transport::Tcp => None,
        };
        let mut known = ServiceEndpoints::decode(head).map_err(|_| ResponseCode::ServFail)?;
        let of_head = std::mem::take(&mut known.endpoints);
        let mut parts: Vec<Option<&SliceRange>> = match &question.part {
            Part::Workload(workload) => vec![layout.slice_of(workload), None],
            Part::Whole | Part::Service | Part::Protocol | Part::Port(_) => {
                std::iter::once(None).chain(layout.slices.iter().map(Some)).collect()
            }
        };
        fastrand::shuffle(&mut parts);
        parts.dedup();
        let mut of_head = Some(of_head);
        for part in parts {
            match part {
                None => known.endpoints.extend(of_head.take().unwrap_or_default()),
                Some(range) => {
                    let Some(slice) = self.read(&host(), "EndpointSlice", namespace, &range.slice).await? else {
                        continue;
                    };
                    let slice = EndpointSlice::decode(slice.data.unwrap_or_default().value.as_slice());
                    known.endpoints.extend(slice.map_err(|_| ResponseCode::ServFail)?.endpoints);
                }
            }
            if known.endpoints.iter().filter(|endpoint| is_healthy(endpoint)).count() >= question.max_records {
                break;
            }
        }
        question.answer(&known).map(Lookup::records).ok_or(ResponseCode::NXDomain)
    }

    async fn read(
        &self,
        caller: &Caller,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<pb::Resource>, ResponseCode> {
        let id = pb::Id {
            uid: String::new(),
            name: name.to_owned(),
            r#type: Some(pb::Type { group: "catalog".into(), group_version: "v1".into(), kind: kind.to_owned() }),
            tenancy: Some(pb::Tenancy { partition: DEFAULT.to_owned(), namespace: namespace.to_owned() }),
        };
        let found = self.service.read(caller, pb::ReadRequest { id: Some(id) }).await;
        match found.and_then(|resource| Ok(resource.decode()?)) {
            Ok(resource) => Ok(Some(resource)),
            Err(error) if error.code == Code::NotFound => Ok(None),
            Err(error) if error.code == Code::PermissionDenied => Err(ResponseCode::Refused),
            Err(error) => {
                tracing::debug!("DNS: {kind}/{namespace}/{name}: {error}");
                Err(ResponseCode::ServFail)
            }
        }
    }

    /// The SOA record of a zone, with the time for which clients may cache an empty answer.
    fn soa(&self, zone: &Name) -> Record {
        let ttl = self.options.ttl;
        let soa = SOA::new(self.server_name(), name_in(zone, "hostmaster"), 1, 7_200, 1_800, 86_400, ttl);
        Record::from_rdata(zone.clone(), ttl, RData::SOA(soa))
    }
}

/// A name in a zone.
fn name_in(zone: &Name, labels: &str) -> Name {
    let name = Name::from_ascii(labels).and_then(|name| name.append_domain(zone));
    // The parts come from a valid name, so the joined name is short enough, unless a short name got a long namespace.
    name.unwrap_or_else(|_| zone.clone())
}

impl LargeServices {
    fn new(queries: usize) -> Self {
        Self(Arc::new(Semaphore::new(large_answers(queries))))
    }

    /// Answers from the encoded endpoints of a service. Without a place the answer is truncated: over TCP its client
    /// waits for its turn.
    async fn answer(&self, question: Question, endpoints: Vec<u8>, by: Transport) -> Result<Lookup, ResponseCode> {
        let is_large = by == Transport::Udp && endpoints.len() > LARGE_SERVICE_BYTES;
        let answer = move || {
            let endpoints = ServiceEndpoints::decode(endpoints.as_slice()).map_err(|_| ResponseCode::ServFail)?;
            question.answer(&endpoints).map(Lookup::records).ok_or(ResponseCode::NXDomain)
        };
        if !is_large {
            return answer();
        }
        let Ok(turn) = self.0.clone().try_acquire_owned() else { return Ok(Lookup::truncated()) };
        let answering = spawn_blocking(move || {
            let _turn = turn;
            answer()
        });
        answering.await.unwrap_or(Err(ResponseCode::ServFail))
    }
}

/// Encodes an answer, as far as it fits into `room` bytes. Over UDP an answer without some of its records is truncated.
fn encode_within(mut reply: Message, room: usize, by: Transport) -> Option<Vec<u8>> {
    // Beyond the longest message the encoder drops records and sets TC, a bit of the third byte.
    let is_whole = |bytes: &Vec<u8>| by == Transport::Udp || bytes.get(2).is_some_and(|flags| flags & 0x02 == 0);
    // More records than fit would be encoded in vain.
    let may_fit = |reply: &Message| reply.answers.len() * MIN_RECORD_BYTES <= room;
    let encode = |reply: &Message| {
        let bytes = Some(reply).filter(|reply| may_fit(reply))?.to_vec().ok()?;
        Some(bytes).filter(|bytes| bytes.len() <= room && is_whole(bytes))
    };
    if let Some(bytes) = encode(&reply) {
        return Some(bytes);
    }
    // Addresses of targets are optional: clients ask for missing ones.
    reply.additionals.clear();
    if let Some(bytes) = encode(&reply) {
        return Some(bytes);
    }
    // As many of the records as fit, which are in any order.
    reply.metadata.truncation = by == Transport::Udp;
    let answers = std::mem::take(&mut reply.answers);
    let (mut fits, mut most) = (0, answers.len().min(room / MIN_RECORD_BYTES));
    let mut bytes = reply.to_vec().ok()?;
    while fits < most {
        let count = (fits + most).div_ceil(2);
        reply.answers = answers.iter().take(count).cloned().collect();
        match encode(&reply) {
            Some(encoded) => (fits, bytes) = (count, encoded),
            None => most = count - 1,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use mortise_resource::grpc::catalog::{Endpoint, Health};

    use super::*;

    fn question(of: RecordType) -> Question {
        let name = Name::from_ascii("web.default.svc.cluster.local.").unwrap();
        Question { name: name.clone(), record_type: of, part: Part::Whole, service: name, ttl: 0, max_records: 78 }
    }

    fn service(endpoints: usize) -> Vec<u8> {
        let endpoint = |n: usize| Endpoint {
            address: format!("10.0.{}.{}", n / 256, n % 256),
            health: Health::Passing.into(),
            ..Endpoint::default()
        };
        ServiceEndpoints { endpoints: (0..endpoints).map(endpoint).collect(), ..ServiceEndpoints::default() }
            .encode_to_vec()
    }

    /// A datagram about a large service is answered while it has a place, and otherwise sends its client to TCP.
    #[tokio::test]
    async fn datagrams_about_large_services_have_places_of_their_own() {
        let places = LargeServices::new(16);
        let answer = async |endpoints, of, by| places.answer(question(of), service(endpoints), by).await.unwrap();
        let large = answer(5_000, RecordType::A, Transport::Udp).await;
        assert_eq!((large.records.answers.len(), large.is_truncated), (78, false), "no more than the question wants");
        let empty = answer(5_000, RecordType::AAAA, Transport::Udp).await;
        assert!(empty.records.answers.is_empty() && !empty.is_truncated && empty.with_soa);
        let held = places.0.clone().try_acquire_owned().expect("places come back");
        let large = answer(5_000, RecordType::A, Transport::Udp).await;
        assert!(large.is_truncated && large.records.answers.is_empty() && !large.with_soa);
        assert_eq!(answer(5, RecordType::A, Transport::Udp).await.records.answers.len(), 5, "a small one needs none");
        assert!(!answer(5_000, RecordType::A, Transport::Tcp).await.is_truncated);
        drop(held);
    }

    /// A large answer waits for the only other thread, which is busy; small ones come meanwhile.
    #[test]
    fn datagrams_about_large_services_are_answered_on_other_threads() {
        let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let places = LargeServices::new(16);
            let answer = |endpoints| places.answer(question(RecordType::A), service(endpoints), Transport::Udp);
            let (release, taken) = std::sync::mpsc::channel::<()>();
            let taken = spawn_blocking(move || taken.recv());
            let mut large = std::pin::pin!(answer(5_000));
            assert!(futures::poll!(large.as_mut()).is_pending());
            assert_eq!(answer(5).await.unwrap().records.answers.len(), 5);
            release.send(()).unwrap();
            assert_eq!(large.await.unwrap().records.answers.len(), 78);
            taken.await.unwrap().unwrap();
        });
    }
}
