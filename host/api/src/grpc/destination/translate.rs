//! Selects from the endpoints of a service the addresses for clients: the rules about ports, health, addresses and
//! labels of docs/destination.md.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use super::{
    authority::{Selection, ServiceName},
    encode::{self, Address, TlsName},
};
use crate::{
    catalog::{Endpoint, ServicePort},
    endpoints::is_healthy,
};

/// The fixed labels of a service, and those of an address.
pub(super) const NAMESPACE: &str = "namespace";
pub(super) const SERVICE: &str = "service";
pub(super) const WORKLOAD: &str = "workload";
const ZONE: &str = "zone";

/// The addresses for clients of one part of a service, sorted, each once. A number that the service does not list is
/// used as it is.
pub(super) fn addresses(ports: &[ServicePort], endpoints: &[Endpoint], selection: &Selection) -> Vec<Arc<Address>> {
    let listed = ports.iter().find(|port| port.port == u32::from(selection.port));
    let mut found = BTreeMap::new();
    for endpoint in endpoints.iter().filter(|endpoint| is_healthy(endpoint)) {
        if selection.instance.as_ref().is_some_and(|instance| *instance != endpoint.workload) {
            continue;
        }
        // Host names are served by DNS only.
        let Ok(ip) = endpoint.address.parse::<IpAddr>() else { continue };
        let port = match listed {
            None => Some(selection.port),
            Some(listed) => {
                let port = endpoint.ports.iter().find(|port| port.name == listed.name);
                port.and_then(|port| u16::try_from(port.port).ok()).filter(|port| *port > 0)
            }
        };
        let Some(port) = port else { continue };
        let is_opaque = match listed {
            Some(listed) => listed.opaque,
            None => endpoint.ports.iter().any(|own| own.port == u32::from(port) && own.opaque),
        };
        found.entry(SocketAddr::new(ip, port)).or_insert((endpoint, is_opaque));
    }
    found.into_iter().map(|(addr, (endpoint, is_opaque))| Arc::new(address(addr, endpoint, is_opaque))).collect()
}

/// The address of an endpoint.
pub(super) fn address(addr: SocketAddr, endpoint: &Endpoint, is_opaque: bool) -> Address {
    let mut labels = endpoint.labels.clone();
    for (label, value) in [(WORKLOAD, &endpoint.workload), (ZONE, &endpoint.zone)] {
        if !value.is_empty() {
            labels.insert(label.to_owned(), value.clone());
        }
    }
    let identity = TlsName { identity: &endpoint.identity, server_name: &endpoint.server_name };
    Address::new(addr, endpoint.weight, labels, identity, is_opaque)
}

/// The labels of a whole service, encoded.
pub(super) fn set_labels(of_service: &BTreeMap<String, String>, service: &ServiceName) -> Box<[u8]> {
    let mut labels = of_service.clone();
    labels.insert(NAMESPACE.to_owned(), service.namespace.clone());
    labels.insert(SERVICE.to_owned(), service.name.clone());
    encode::set_labels(labels)
}
