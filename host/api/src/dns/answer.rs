//! Chooses the records that answer a question about a service.

use std::{collections::BTreeSet, net::IpAddr};

use hickory_proto::rr::{
    Name, RData, Record, RecordType,
    rdata::{CNAME, HINFO, SRV},
};
use mortise_resource::grpc::catalog::{Endpoint, Health, ServiceEndpoints};

use super::name::Part;

/// Most records of an answer: as many addresses as fit into a message over TCP.
pub(super) const MAX_RECORDS: usize = 4_000;

/// The records of a name with the requested type.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Records {
    /// Answers; empty if the name has no record of that type.
    pub(super) answers: Vec<Record>,
    /// Addresses of the targets.
    pub(super) additionals: Vec<Record>,
}

/// A parsed question.
pub(super) struct Question {
    /// The name in the case of the question.
    pub(super) name: Name,
    pub(super) record_type: RecordType,
    pub(super) part: Part,
    /// The service's full name in lower case.
    pub(super) service: Name,
    pub(super) ttl: u32,
    /// Most records in each section.
    pub(super) max_records: usize,
}

impl Question {
    /// Answers from the endpoints of the service; `None` if the name does not exist.
    pub(super) fn answer(&self, endpoints: &ServiceEndpoints) -> Option<Records> {
        let mut healthy: Vec<&Endpoint> =
            endpoints.endpoints.iter().filter(|endpoint| endpoint.health == i32::from(Health::Passing)).collect();
        // Clients take the first record, so the order is random.
        fastrand::shuffle(&mut healthy);
        let is_there = match &self.part {
            Part::Whole | Part::Service | Part::Protocol => true,
            Part::Port(port) => {
                let of_service = endpoints.ports.iter().any(|other| other.name == *port);
                of_service
                    || endpoints
                        .endpoints
                        .iter()
                        .any(|declared| declared.ports.iter().any(|declared| declared.name == *port))
            }
            Part::Workload(workload) => endpoints.endpoints.iter().any(|endpoint| label(endpoint) == *workload),
        };
        if !is_there {
            return None;
        }
        if self.record_type == RecordType::ANY {
            return Some(Records { answers: vec![any(&self.name, self.ttl)], additionals: Vec::new() });
        }
        Some(match &self.part {
            Part::Protocol => Records::default(),
            Part::Port(port) => self.srv(&healthy, Some(port)),
            Part::Service => self.srv(&healthy, None),
            Part::Whole if self.record_type == RecordType::SRV => self.srv(&healthy, None),
            Part::Whole => self.addresses(&healthy),
            Part::Workload(workload) => {
                healthy.retain(|endpoint| label(endpoint) == *workload);
                self.addresses(&healthy)
            }
        })
    }

    /// Address records, or a single CNAME to a host name.
    fn addresses(&self, healthy: &[&Endpoint]) -> Records {
        if !matches!(self.record_type, RecordType::A | RecordType::AAAA | RecordType::CNAME) {
            return Records::default();
        }
        if let [only] = healthy
            && only.address.parse::<IpAddr>().is_err()
        {
            let host = Name::from_ascii(format!("{}.", only.address)).ok();
            let cname = host.map(|host| Record::from_rdata(self.name.clone(), self.ttl, RData::CNAME(CNAME(host))));
            return Records { answers: cname.into_iter().collect(), additionals: Vec::new() };
        }
        let mut seen = BTreeSet::new();
        let found = healthy.iter().filter_map(|endpoint| endpoint.address.parse::<IpAddr>().ok());
        let answers = found
            .filter(|ip| of(*ip) == self.record_type && seen.insert(*ip))
            .take(self.max_records)
            .map(|ip| address(self.name.clone(), self.ttl, ip))
            .collect();
        Records { answers, additionals: Vec::new() }
    }

    /// SRV records for each port of each endpoint, with the addresses of the targets.
    fn srv(&self, healthy: &[&Endpoint], port: Option<&str>) -> Records {
        let mut records = Records::default();
        if self.record_type != RecordType::SRV {
            return records;
        }
        let (mut seen, mut addressed) = (BTreeSet::new(), BTreeSet::new());
        for endpoint in healthy {
            let ip = endpoint.address.parse::<IpAddr>().ok();
            let target = match ip {
                Some(_) => self.service.prepend_label(label(endpoint)),
                None => Name::from_ascii(format!("{}.", endpoint.address)),
            };
            let Ok(target) = target else { continue };
            for declared_port in
                endpoint.ports.iter().filter(|declared_port| port.is_none_or(|port| declared_port.name == port))
            {
                let Ok(number) = u16::try_from(declared_port.port) else { continue };
                // A workload with two addresses is one target.
                if records.answers.len() == self.max_records || !seen.insert((target.clone(), number)) {
                    continue;
                }
                let weight = u16::try_from(endpoint.weight).unwrap_or(u16::MAX);
                let srv = SRV::new(0, weight, number, target.clone());
                records.answers.push(Record::from_rdata(self.name.clone(), self.ttl, RData::SRV(srv)));
            }
            if let Some(ip) = ip
                && records.additionals.len() < self.max_records
                && endpoint.ports.iter().any(|declared_port| port.is_none_or(|port| declared_port.name == port))
                && addressed.insert((target.clone(), ip))
            {
                records.additionals.push(address(target, self.ttl, ip));
            }
        }
        records
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

fn of(ip: IpAddr) -> RecordType {
    if ip.is_ipv4() { RecordType::A } else { RecordType::AAAA }
}

/// The label of an endpoint below its service: the name of its workload, or an encoded address if it has none.
fn label(endpoint: &Endpoint) -> String {
    if !endpoint.workload.is_empty() {
        return endpoint.workload.clone();
    }
    match endpoint.address.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => ip.to_string().replace('.', "-"),
        Ok(IpAddr::V6(ip)) => ip.segments().map(|segment| format!("{segment:x}")).join("-"),
        Err(_) => endpoint.address.replace('.', "-"),
    }
}
