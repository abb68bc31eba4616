//! Chooses the records that answer a question about a service.

use std::{collections::HashSet, net::IpAddr};

use hickory_proto::rr::{Name, RData, Record, RecordType, rdata::HINFO};
use mortise_resource::{
    grpc::catalog::{Endpoint, ServiceEndpoints},
    name::is_valid,
};

use super::{
    name::Part,
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
}

impl Question {
    /// The form of the question; `None` if its answers differ from those to all others, or are made in no time.
    pub(super) fn form(&self) -> Option<Form> {
        let record_type = self.record_type;
        match (&self.part, record_type) {
            (Part::Whole, RecordType::A | RecordType::AAAA | RecordType::CNAME) => {
                Some(Form { record_type, port: None, service: None, place: None })
            }
            (Part::Whole | Part::Service | Part::Port(_), RecordType::SRV) => Some(Form {
                record_type,
                port: self.port().map(str::to_owned),
                service: Some(self.service.clone()),
                place: self.service_place(),
            }),
            _ => None,
        }
    }

    /// Whether the endpoints decide about the answer: whether the name exists, or its records.
    pub(super) fn needs_endpoints(&self) -> bool {
        self.form().is_some() || matches!(self.part, Part::Port(_) | Part::Workload(_))
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

    /// Makes the records from endpoints of the service; `None` if the name does not exist.
    pub(super) fn pack(&self, endpoints: &ServiceEndpoints, ttl: u32) -> Option<Packed> {
        if !self.exists(endpoints) {
            return None;
        }
        if self.record_type == RecordType::ANY {
            // RFC 8482.
            return Some(Packed::single(RecordType::HINFO, ttl, b"\x07RFC8482\x00"));
        }
        let healthy = endpoints.endpoints.iter().filter(|endpoint| is_healthy(endpoint));
        Some(match (&self.part, self.record_type) {
            (Part::Whole | Part::Service | Part::Port(_), RecordType::SRV) => self.services(healthy, ttl),
            (Part::Whole, _) => self.addresses(healthy.collect(), ttl),
            (Part::Workload(workload), _) => {
                self.addresses(healthy.filter(|endpoint| label(endpoint) == *workload).collect(), ttl)
            }
            (Part::Protocol | Part::Service | Part::Port(_), _) => Packed::default(),
        })
    }

    fn exists(&self, endpoints: &ServiceEndpoints) -> bool {
        match &self.part {
            Part::Whole | Part::Service | Part::Protocol => true,
            Part::Port(port) => {
                let in_endpoint = |endpoint: &Endpoint| endpoint.ports.iter().any(|declared| declared.name == *port);
                endpoints.ports.iter().any(|declared| declared.name == *port)
                    || endpoints.endpoints.iter().any(in_endpoint)
            }
            Part::Workload(workload) => endpoints.endpoints.iter().any(|endpoint| label(endpoint) == *workload),
        }
    }

    /// Address records, or a single CNAME to a host name.
    fn addresses(&self, healthy: Vec<&Endpoint>, ttl: u32) -> Packed {
        if !matches!(self.record_type, RecordType::A | RecordType::AAAA | RecordType::CNAME) {
            return Packed::default();
        }
        if let [only] = healthy.as_slice()
            && only.address.parse::<IpAddr>().is_err()
        {
            return host_name(&only.address).map(|host| Packed::alias(host, ttl)).unwrap_or_default();
        }
        let (mut packed, mut seen) = (Packed::default(), HashSet::new());
        for ip in healthy.iter().filter_map(|endpoint| endpoint.address.parse::<IpAddr>().ok()) {
            if packed::type_of(ip) == self.record_type && seen.insert(ip) {
                packed.push(self.record_type, ttl, &packed::address(ip));
            }
        }
        packed
    }

    /// SRV records for each port of each endpoint, with the addresses of the targets.
    fn services<'e>(&self, healthy: impl Iterator<Item = &'e Endpoint>, ttl: u32) -> Packed {
        let (mut packed, port, place) = (Packed::default(), self.port(), self.service_place());
        let Some(service) = packed::wire(&self.service) else { return packed };
        // A workload with two addresses is one target.
        let (mut written, mut addressed) = (HashSet::new(), HashSet::new());
        for endpoint in healthy {
            let is_wanted = |declared: &str| port.is_none_or(|port| declared == port);
            let mut ports = endpoint.ports.iter().filter(|declared| is_wanted(&declared.name)).peekable();
            if ports.peek().is_none() {
                continue;
            }
            let (ip, name) = (endpoint.address.parse::<IpAddr>().ok(), label(endpoint));
            let target = match ip {
                Some(_) if is_valid(&name) => packed::wire_below(&name, &service),
                Some(_) => None,
                None => host_name(&endpoint.address).and_then(|host| packed::wire(&host)),
            };
            let Some(target) = target else { continue };
            let weight = u16::try_from(endpoint.weight).unwrap_or(u16::MAX);
            for number in ports.filter_map(|declared| u16::try_from(declared.port).ok()) {
                if written.insert((target.clone(), number)) {
                    let head = [[0, 0], weight.to_be_bytes(), number.to_be_bytes()].concat();
                    packed.push(RecordType::SRV, ttl, &[head.as_slice(), target.as_slice()].concat());
                }
            }
            if let Some(ip) = ip {
                let owner = match place {
                    Some(place) => Owner::Below(&name, place),
                    None => Owner::Name(target.as_slice()),
                };
                if addressed.insert((target.clone(), ip)) {
                    packed.push_additional(owner, ttl, ip);
                }
            }
        }
        packed
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
