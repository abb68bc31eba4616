//! Selects from `catalog.v1.ServiceEndpoints` the addresses for clients: the rules about ports, health, addresses and
//! labels of docs/destination.md.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use super::{
    authority::{Selection, ServiceName},
    encode::{self, Address},
};
use crate::{
    catalog::{Endpoint, ServiceEndpoints},
    endpoints::is_healthy,
};

/// The fixed labels of a service, and those of an address.
const NAMESPACE: &str = "namespace";
const SERVICE: &str = "service";
const WORKLOAD: &str = "workload";
const ZONE: &str = "zone";

/// Whether the service lists its ports and this port is not among them.
pub(super) fn is_undefined(endpoints: &ServiceEndpoints, port: u16) -> bool {
    !endpoints.ports.is_empty() && endpoints.ports.iter().all(|declared| declared.port != u32::from(port))
}

/// The addresses for clients, sorted, each once.
pub(super) fn addresses(endpoints: &ServiceEndpoints, selection: &Selection) -> Vec<Arc<Address>> {
    let listed = endpoints.ports.iter().find(|port| port.port == u32::from(selection.port));
    let mut found = BTreeMap::new();
    for endpoint in endpoints.endpoints.iter().filter(|endpoint| is_healthy(endpoint)) {
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
        found.entry(SocketAddr::new(ip, port)).or_insert(endpoint);
    }
    found.into_iter().map(|(addr, endpoint)| Arc::new(address(addr, endpoint))).collect()
}

fn address(addr: SocketAddr, endpoint: &Endpoint) -> Address {
    let mut labels = endpoint.labels.clone();
    for (label, value) in [(WORKLOAD, &endpoint.workload), (ZONE, &endpoint.zone)] {
        if !value.is_empty() {
            labels.insert(label.to_owned(), value.clone());
        }
    }
    Address::new(addr, endpoint.weight, labels, &endpoint.identity)
}

/// The labels of a whole service, encoded.
pub(super) fn set_labels(endpoints: &ServiceEndpoints, service: &ServiceName) -> Box<[u8]> {
    let mut labels = endpoints.labels.clone();
    labels.insert(NAMESPACE.to_owned(), service.namespace.clone());
    labels.insert(SERVICE.to_owned(), service.name.clone());
    encode::set_labels(labels)
}
