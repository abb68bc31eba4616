//! Turns the bytes of a query into the bytes of its answer.

use std::net::{IpAddr, SocketAddr};

use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, ResponseCode},
    rr::{
        DNSClass, Name, RData, Record, RecordType,
        rdata::{NS, SOA},
    },
};
use mortise_service::ResourceService;

use super::{
    DnsOptions,
    answer::{self, Question, Records},
    large::Transport,
    name::{Subject, Zones, parse_name},
    packed::{encode_few, malformed},
    services::{Client, Found, Services},
};

/// Largest answer over UDP, bytes: what passes most networks in one piece (DNS Flag Day 2020).
const MAX_UDP_BYTES: u16 = 1_232;

/// Largest answer over UDP to a client without EDNS (RFC 1035).
const MAX_PLAIN_UDP_BYTES: usize = 512;

/// Answers queries.
pub(super) struct Resolver {
    services: Services,
    options: DnsOptions,
    /// The address of this server, unless it listens on all addresses.
    own: Option<IpAddr>,
}

/// The answer to a question.
struct Lookup {
    code: ResponseCode,
    content: Content,
}

/// The records of an answer.
enum Content {
    /// A few records, or none: then the zone's SOA accompanies the answer.
    Records(Records),
    /// Neither records nor the SOA.
    Nothing,
    /// Records of a service or an address, or the order to ask again over TCP.
    Found(Found),
}

impl Lookup {
    fn code(code: ResponseCode) -> Self {
        let with_soa = code == ResponseCode::NXDomain;
        Self { code, content: if with_soa { Content::Records(Records::default()) } else { Content::Nothing } }
    }

    /// An answer with records, or an empty one if the name has no record of the type.
    fn records(records: Records) -> Self {
        Self { code: ResponseCode::NoError, content: Content::Records(records) }
    }

    fn found(found: Found) -> Self {
        match found {
            Found::Records(records) if records.is_empty() => Self::records(Records::default()),
            found => Self { code: ResponseCode::NoError, content: Content::Found(found) },
        }
    }

    fn record(record: Record) -> Self {
        Self::records(Records { answers: vec![record], additionals: Vec::new() })
    }
}

impl Resolver {
    pub(super) fn new(service: ResourceService, options: DnsOptions, local: SocketAddr) -> Self {
        let own = Some(local.ip()).filter(|ip| !ip.is_unspecified());
        Self { services: Services::new(service, &options), options, own }
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
            return Some((malformed(u16::from_be_bytes([high, low]))?, ResponseCode::FormErr));
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
        let zones = Zones { whole: &self.options.zone, short: self.options.short_zone.as_ref() };
        let asked = query.queries.first().map(|question| parse_name(zones, question.name()));
        let (subject, zone) = asked.unwrap_or((Subject::Elsewhere, zones.whole));
        let client = Client { address: from, transport: by, room };
        let Lookup { code, content } = self.look_up(&query, (subject, zone), client).await;
        reply.metadata.response_code = code;
        reply.metadata.authoritative = matches!(code, ResponseCode::NoError | ResponseCode::NXDomain);
        let bytes = match content {
            Content::Nothing => encode_few(&reply, room),
            Content::Records(Records { answers, additionals }) => {
                if answers.is_empty() {
                    reply.add_authority(self.soa(zone));
                }
                reply.add_answers(answers);
                reply.add_additionals(additionals);
                encode_few(&reply, room)
            }
            Content::Found(Found::Records(records)) => records.encode(reply, room, by == Transport::Udp),
            Content::Found(Found::Busy) => reply.truncate().to_vec().ok(),
        };
        Some((bytes?, code))
    }

    /// Answers a query about the subject of its name, in that zone.
    async fn look_up(&self, query: &Message, (subject, zone): (Subject, &Name), client: Client) -> Lookup {
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
            Subject::Address(ip) if query_type == RecordType::PTR => match self.services.names(ip, client).await {
                Ok(Some(found)) => Lookup::found(found),
                Ok(None) => Lookup::code(ResponseCode::Refused),
                Err(code) => Lookup::code(code),
            },
            Subject::Elsewhere | Subject::Address(_) => Lookup::code(ResponseCode::Refused),
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
            Subject::Service { namespace, service, narrowing, part } => {
                let is_short = self.options.short_zone.as_ref() == Some(zone);
                let labels = format!("{service}.{namespace}{}", if is_short { "" } else { ".svc" });
                let whole = name_in(zone, &labels);
                let question =
                    Question { name: name.clone(), record_type: query_type, part, narrowing, service: whole };
                let found = self.services.answer(question, (&namespace, &service), client).await;
                found.map_or_else(Lookup::code, Lookup::found)
            }
        }
    }

    /// The name of this server, which both zones have.
    fn server_name(&self) -> Name {
        name_in(&self.options.zone, "ns.dns")
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
