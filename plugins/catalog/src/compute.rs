//! Computes the endpoints of a service from its definition and the workloads that it selects.

use std::net::IpAddr;

use mortise_plugin::Typed;

use crate::{
    health,
    proto::catalog::v1::{Endpoint, EndpointPort, Service, ServicePort, Workload, WorkloadAddress},
};

/// Computes the endpoints of a workload: one for each address. An address without any of the service's ports is left
/// out.
pub(crate) fn endpoints(service: &Service, workload: &Typed<Workload>) -> Vec<Endpoint> {
    let health = health::of(workload);
    let data = &workload.data;
    let at = |address: &WorkloadAddress| {
        let ports = ports(service, data, address);
        let offers = service.ports.is_empty() || !ports.is_empty();
        offers.then(|| Endpoint {
            workload: workload.name().to_owned(),
            address: canonical(&address.host),
            weight: data.weight,
            health: health.into(),
            ports,
            labels: data.labels.clone(),
            zone: data.zone.clone(),
            identity: data.identity.clone(),
            server_name: data.server_name.clone(),
        })
    };
    data.addresses.iter().filter_map(at).collect()
}

/// Number of a workload's endpoints, and about the bytes of them all, for a small part of the work of [`endpoints`].
pub(crate) fn size(service: &Service, workload: &Typed<Workload>) -> (usize, usize) {
    let data = &workload.data;
    let offers = |address: &&WorkloadAddress| {
        service.ports.is_empty() || service.ports.iter().any(|port| number(port, data, address).is_some())
    };
    let count = data.addresses.iter().filter(offers).count();
    // An endpoint has about a dozen bytes besides its texts, and a label or a port about half of that.
    let labels: usize = data.labels.iter().map(|(key, value)| key.len() + value.len() + 6).sum();
    let ports: usize = match service.ports.is_empty() {
        true => data.ports.iter().map(|port| port.name.len() + 8).sum(),
        false => service.ports.iter().map(|port| port.name.len() + 8).sum(),
    };
    let hosts: usize = data.addresses.iter().map(|address| address.host.len()).sum();
    let texts = workload.name().len() + data.zone.len() + data.identity.len() + data.server_name.len();
    (count, hosts + count * (12 + texts + labels + ports))
}

/// An IP address in the form of RFC 5952, by which the names of addresses are looked up; other hosts as they are.
fn canonical(host: &str) -> String {
    host.parse::<IpAddr>().map_or_else(|_| host.to_owned(), |ip| ip.to_string())
}

/// Ports of a service at an address; the workload's own if the service names none.
fn ports(service: &Service, workload: &Workload, address: &WorkloadAddress) -> Vec<EndpointPort> {
    if service.ports.is_empty() {
        let own = workload.ports.iter().filter(|port| is_at(address, &port.name));
        return own
            .map(|port| EndpointPort {
                name: port.name.clone(),
                port: port.port,
                protocol: port.protocol,
                opaque: port.opaque,
            })
            .collect();
    }
    let find = |wanted: &ServicePort| {
        let number = number(wanted, workload, address)?;
        Some(EndpointPort { name: wanted.name.clone(), port: number, protocol: wanted.protocol, opaque: wanted.opaque })
    };
    service.ports.iter().filter_map(find).collect()
}

/// Number of a service's port at an address; `None` if the workload does not offer it there.
fn number(wanted: &ServicePort, workload: &Workload, address: &WorkloadAddress) -> Option<u32> {
    if let Ok(number) = wanted.target_port.parse::<u16>() {
        return Some(number.into());
    }
    workload
        .ports
        .iter()
        .find(|port| port.name == wanted.target_port && is_at(address, &port.name))
        .map(|port| port.port)
}

/// Whether a workload offers a port of this name at an address.
fn is_at(address: &WorkloadAddress, name: &str) -> bool {
    address.ports.is_empty() || address.ports.iter().any(|one| one == name)
}

#[cfg(test)]
mod tests {
    use mortise_plugin::{prost, testing::World};

    use super::*;
    use crate::{
        WORKLOAD,
        proto::catalog::v1::{Health, WorkloadPort},
    };

    #[test]
    fn sizes_are_counted_as_the_endpoints_are_computed() {
        let at = |ports: &[&str]| WorkloadAddress {
            host: "10.0.0.1".into(),
            ports: ports.iter().map(|name| (*name).to_owned()).collect(),
        };
        let port = |name: &str| WorkloadPort { name: name.into(), port: 80, ..WorkloadPort::default() };
        let labels = [("app".to_owned(), "web".repeat(20))].into();
        let data = Workload {
            addresses: vec![at(&[]), at(&["http"]), at(&["admin"])],
            ports: vec![port("http"), port("admin")],
            labels,
            ..Workload::default()
        };
        let workload = Typed::new(WORKLOAD.id("web", &World::tenancy()), data);
        let wants =
            |target: &str| ServicePort { name: "http".into(), target_port: target.into(), ..Default::default() };
        for ports in [vec![], vec![wants("http")], vec![wants("8080")], vec![wants("other"), wants("admin")]] {
            let service = Service { ports, ..Service::default() };
            let found = endpoints(&service, &workload);
            let exact: usize = found.iter().map(prost::Message::encoded_len).sum();
            let (count, about) = size(&service, &workload);
            assert_eq!(count, found.len(), "{service:?}");
            assert!((exact..=2 * exact).contains(&about), "{about} for {exact}, {service:?}");
        }
    }

    #[test]
    fn addresses_are_written_in_one_form() {
        for (host, form) in [
            ("2001:DB8:0::1", "2001:db8::1"),
            ("2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1"),
            ("10.0.0.1", "10.0.0.1"),
            ("db.example", "db.example"),
        ] {
            assert_eq!(canonical(host), form);
        }
    }

    #[test]
    fn an_endpoint_has_what_its_workload_says() {
        let at = |host: &str| WorkloadAddress { host: host.into(), ports: Vec::new() };
        let data = Workload {
            addresses: vec![at("10.0.0.1"), at("10.0.0.2")],
            weight: 7,
            labels: [("version".to_owned(), "2".to_owned())].into(),
            zone: "rack-1".into(),
            identity: "web.default".into(),
            server_name: "web.example".into(),
            ..Workload::default()
        };
        let workload = Typed::new(WORKLOAD.id("web-1", &World::tenancy()), data.clone());
        let expected = |address: &str| Endpoint {
            workload: "web-1".into(),
            address: address.into(),
            weight: 7,
            health: Health::Passing.into(),
            ports: Vec::new(),
            labels: data.labels.clone(),
            zone: "rack-1".into(),
            identity: "web.default".into(),
            server_name: "web.example".into(),
        };
        assert_eq!(endpoints(&Service::default(), &workload), ["10.0.0.1", "10.0.0.2"].map(expected));
    }
}
