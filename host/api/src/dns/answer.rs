//! Chooses the records that answer a question about a service.

use std::{collections::HashSet, net::IpAddr};

use hickory_proto::rr::{Name, RData, Record, RecordType, rdata::HINFO};
use mortise_resource::{
    grpc::catalog::{Endpoint, ServiceEndpoints},
    name::is_valid,
};

use super::{
    name::Part,
    narrow::{Narrowing, ZonePreference},
    packed::{self, HEADER_BYTES, Owner, Packed},
};
use crate::endpoints::is_healthy;

/// The records of a name outside of services.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Records {
    /// Answers; empty if the name has no record of that type.
    pub(super) answers: Vec<Record>,
    /// Addresses of the targets.
    pub(super) additionals: Vec<Record>,
}

/// A parsed question about a service.
#[derive(Debug, Clone)]
pub(super) struct Question {
    /// The name in the case of the question.
    pub(super) name: Name,
    pub(super) record_type: RecordType,
    pub(super) part: Part,
    /// The condition on the endpoints.
    pub(super) narrowing: Narrowing,
    /// The service's full name in lower case.
    pub(super) service: Name,
}

/// The questions about a service with the same records.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Form {
    record_type: RecordType,
    /// Port of the records; `None` for every one.
    port: Option<String>,
    /// Name of the targets' service; `None` for addresses, which have the name of the question.
    service: Option<Name>,
    /// The place of the service's name in the question.
    place: Option<u16>,
    narrowing: Narrowing,
}

impl Question {
    /// The form of the question; `None` if its answers differ from those to all others, or are made in no time.
    pub(super) fn form(&self) -> Option<Form> {
        let (record_type, narrowing) = (self.record_type, self.narrowing.clone());
        match (&self.part, record_type) {
            (Part::Whole, RecordType::A | RecordType::AAAA | RecordType::CNAME) => {
                Some(Form { record_type, port: None, service: None, place: None, narrowing })
            }
            (Part::Whole | Part::Service | Part::Port(_), RecordType::SRV) => Some(Form {
                record_type,
                port: self.port().map(str::to_owned),
                service: Some(self.service.clone()),
                place: self.service_place(),
                narrowing,
            }),
            _ => None,
        }
    }

    /// Whether the endpoints decide about the answer: whether the name exists, or its records.
    pub(super) fn needs_endpoints(&self) -> bool {
        let has_condition = self.narrowing != Narrowing::All;
        has_condition || self.form().is_some() || matches!(self.part, Part::Port(_) | Part::Workload(_))
    }

    /// Returns whether an endpoint gives a record to the answer.
    pub(super) fn wants(&self, endpoint: &Endpoint) -> bool {
        let fits = match self.record_type {
            RecordType::A | RecordType::AAAA => {
                endpoint.address.parse().is_ok_and(|ip| packed::type_of(ip) == self.record_type)
            }
            RecordType::SRV => endpoint.ports.iter().any(|declared| self.is_port(&declared.name)),
            _ => true,
        };
        fits && is_healthy(endpoint) && self.narrowing.has(endpoint)
    }

    /// Returns whether records are about a port of that name.
    fn is_port(&self, name: &str) -> bool {
        self.port().is_none_or(|port| port == name)
    }

    fn port(&self) -> Option<&str> {
        match &self.part {
            Part::Port(port) => Some(port),
            Part::Whole | Part::Service | Part::Protocol | Part::Workload(_) => None,
        }
    }

    /// The place of the service's name within the name of the question, in bytes from the beginning of the message.
    fn service_place(&self) -> Option<u16> {
        if !self.service.zone_of(&self.name) {
            return None;
        }
        let (name, service) = (packed::wire(&self.name)?, packed::wire(&self.service)?);
        HEADER_BYTES.checked_add(u16::try_from(name.len().checked_sub(service.len())?).ok()?)
    }

    /// Makes the records from endpoints of the service, first of the near ones; `None` if the name does not exist.
    pub(super) fn pack(&self, endpoints: &ServiceEndpoints, ttl: u32, near: &ZonePreference) -> Option<Packed> {
        if !self.exists(endpoints) {
            return None;
        }
        if self.record_type == RecordType::ANY {
            // RFC 8482.
            return Some(Packed::single(RecordType::HINFO, ttl, b"\x07RFC8482\x00"));
        }
        let is_meant = |endpoint: &&Endpoint| is_healthy(endpoint) && self.narrowing.has(endpoint);
        let mut healthy: Vec<&Endpoint> = endpoints.endpoints.iter().filter(is_meant).collect();
        Some(match (&self.part, self.record_type) {
            (Part::Whole | Part::Service | Part::Port(_), RecordType::SRV) => self.services(&healthy, ttl, near),
            (Part::Whole, _) => self.addresses(&healthy, ttl, near),
            (Part::Workload(workload), _) => {
                healthy.retain(|endpoint| label(endpoint) == *workload);
                self.addresses(&healthy, ttl, near)
            }
            (Part::Protocol | Part::Service | Part::Port(_), _) => Packed::default(),
        })
    }

    fn exists(&self, endpoints: &ServiceEndpoints) -> bool {
        let mut all = endpoints.endpoints.iter();
        if self.narrowing != Narrowing::All && !all.any(|endpoint| self.narrowing.is_named_by(endpoint)) {
            return false;
        }
        match &self.part {
            Part::Whole | Part::Service | Part::Protocol => true,
            Part::Port(port) => {
                let in_endpoint = |endpoint: &Endpoint| endpoint.ports.iter().any(|declared| declared.name == *port);
                endpoints.ports.iter().any(|declared| declared.name == *port)
                    || endpoints.endpoints.iter().any(in_endpoint)
            }
            // Names of zones and labels are below these.
            Part::Workload(workload) if Narrowing::is_mark(workload) => true,
            Part::Workload(workload) => endpoints.endpoints.iter().any(|endpoint| label(endpoint) == *workload),
        }
    }

    /// Address records, or a single CNAME to a host name.
    fn addresses(&self, healthy: &[&Endpoint], ttl: u32, near: &ZonePreference) -> Packed {
        if !matches!(self.record_type, RecordType::A | RecordType::AAAA | RecordType::CNAME) {
            return Packed::default();
        }
        if let [only] = healthy
            && only.address.parse::<IpAddr>().is_err()
        {
            return host_name(&only.address).map(|host| Packed::alias(host, ttl)).unwrap_or_default();
        }
        let (mut packed, mut seen) = (Packed::default(), HashSet::new());
        for is_near in [true, false] {
            let group = healthy.iter().filter(|endpoint| near.is_near(endpoint) == is_near);
            for ip in group.filter_map(|endpoint| endpoint.address.parse::<IpAddr>().ok()) {
                if packed::type_of(ip) == self.record_type && seen.insert(ip) {
                    packed.push(self.record_type, ttl, &packed::address(ip));
                }
            }
            if is_near {
                packed.end_near();
                if near.are_enough(seen.len()) {
                    break;
                }
            }
        }
        packed
    }

    /// SRV records for each port of each endpoint, with the addresses of the targets.
    fn services(&self, healthy: &[&Endpoint], ttl: u32, near: &ZonePreference) -> Packed {
        let mut targets = Targets { packed: Packed::default(), written: HashSet::new(), addressed: HashSet::new() };
        let Some(service) = packed::wire(&self.service) else { return targets.packed };
        for is_near in [true, false] {
            let mut count = 0;
            for endpoint in healthy.iter().filter(|endpoint| near.is_near(endpoint) == is_near) {
                // Clients take a target of the lowest priority that they reach (RFC 2782).
                let priority = u16::from(!is_near && targets.packed.has_near());
                count += usize::from(targets.add(self, endpoint, &service, priority, ttl));
            }
            if is_near {
                targets.packed.end_near();
                if near.are_enough(count) {
                    break;
                }
            }
        }
        targets.packed
    }
}

/// SRV records and the addresses of their targets. A workload with two addresses is one target.
struct Targets {
    packed: Packed,
    written: HashSet<(Vec<u8>, u16)>,
    addressed: HashSet<(Vec<u8>, IpAddr)>,
}

impl Targets {
    /// Adds the records of an endpoint; false if it has none that are new.
    fn add(&mut self, question: &Question, endpoint: &Endpoint, service: &[u8], priority: u16, ttl: u32) -> bool {
        let mut ports = endpoint.ports.iter().filter(|declared| question.is_port(&declared.name)).peekable();
        if ports.peek().is_none() {
            return false;
        }
        let (ip, name) = (endpoint.address.parse::<IpAddr>().ok(), label(endpoint));
        let target = match ip {
            Some(_) if is_valid(&name) => packed::wire_below(&name, service),
            Some(_) => None,
            None => host_name(&endpoint.address).and_then(|host| packed::wire(&host)),
        };
        let Some(target) = target else { return false };
        let weight = u16::try_from(endpoint.weight).unwrap_or(u16::MAX);
        let mut is_new = false;
        for number in ports.filter_map(|declared| u16::try_from(declared.port).ok()) {
            if self.written.insert((target.clone(), number)) {
                let head = [priority.to_be_bytes(), weight.to_be_bytes(), number.to_be_bytes()].concat();
                self.packed.push(RecordType::SRV, ttl, &[head.as_slice(), target.as_slice()].concat());
                is_new = true;
            }
        }
        if let Some(ip) = ip {
            let owner = match question.service_place() {
                Some(place) => Owner::Below(&name, place),
                None => Owner::Name(target.as_slice()),
            };
            if self.addressed.insert((target.clone(), ip)) {
                self.packed.push_additional(owner, ttl, ip);
            }
        }
        is_new
    }
}

/// The answer to ANY queries: the minimal one of RFC 8482.
pub(super) fn any(name: &Name, ttl: u32) -> Record {
    Record::from_rdata(name.clone(), ttl, RData::HINFO(HINFO::new("RFC8482".into(), String::new())))
}

pub(super) fn address(name: Name, ttl: u32, ip: IpAddr) -> Record {
    let data = match ip {
        IpAddr::V4(ip) => RData::A(ip.into()),
        IpAddr::V6(ip) => RData::AAAA(ip.into()),
    };
    Record::from_rdata(name, ttl, data)
}

/// The host name of an endpoint.
fn host_name(text: &str) -> Option<Name> {
    Name::from_ascii(format!("{text}.")).ok()
}

/// The label of an endpoint below its service: the name of its workload, or an encoded address if it has none.
pub(super) fn label(endpoint: &Endpoint) -> String {
    if !endpoint.workload.is_empty() {
        return endpoint.workload.clone();
    }
    match endpoint.address.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => ip.to_string().replace('.', "-"),
        Ok(IpAddr::V6(ip)) => ip.segments().map(|segment| format!("{segment:x}")).join("-"),
        Err(_) => endpoint.address.replace('.', "-"),
    }
}
