//! A workload at its own address.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use prost::Message as _;

use super::{
    addresses::Holders,
    encode::Dialect,
    translate::{self, NAMESPACE},
};
use crate::{
    catalog::{Endpoint, EndpointPort, Protocol, Workload},
    linkerd::{
        destination::WeightedAddr,
        meta::{Metadata, Resource, metadata},
    },
};

/// A workload, and a port of it.
#[derive(Debug, Clone)]
pub(super) struct OwnWorkload {
    pub(super) namespace: String,
    pub(super) name: String,
    port: u16,
    /// The protocol of the port, if the workload lists it.
    pub(super) protocol: Protocol,
    pub(super) is_opaque: bool,
    pub(super) endpoint: WeightedAddr,
}

/// The workloads that may be meant by an address, the likeliest first: those that list the port. If none does, the only
/// workload at the address.
pub(super) fn candidates(holders: &Holders, addr: SocketAddr) -> Vec<OwnWorkload> {
    let host = addr.ip().to_string();
    let lists = |workload: &Workload| {
        workload.ports.iter().any(|port| {
            let is_at = |ports: &Vec<String>| ports.is_empty() || ports.contains(&port.name);
            let offers = workload.addresses.iter().any(|address| address.host == host && is_at(&address.ports));
            port.port == u32::from(addr.port()) && offers
        })
    };
    let all = || holders.workloads.iter();
    let mut meant: Vec<_> = all().filter(|(_, workload)| lists(workload)).collect();
    if meant.is_empty() && holders.workloads.len() == 1 {
        meant = all().collect();
    }
    meant.into_iter().filter_map(|((namespace, name), workload)| own(namespace, name, workload, addr)).collect()
}

fn own(namespace: &str, name: &str, workload: &Arc<Workload>, addr: SocketAddr) -> Option<OwnWorkload> {
    let port = workload.ports.iter().find(|port| port.port == u32::from(addr.port()));
    let (protocol, is_opaque) = port.map_or((Protocol::Tcp, false), |port| (port.protocol(), port.opaque));
    let endpoint = Endpoint {
        workload: name.to_owned(),
        address: addr.ip().to_string(),
        weight: workload.weight,
        ports: Vec::<EndpointPort>::new(),
        labels: workload.labels.clone(),
        zone: workload.zone.clone(),
        identity: workload.identity.clone(),
        server_name: workload.server_name.clone(),
        ..Endpoint::default()
    };
    let encoded = translate::address(addr, &endpoint, is_opaque);
    let mut endpoint = WeightedAddr::decode(encoded.encoded(Dialect::Linkerd)).ok()?;
    endpoint.metric_labels.extend(BTreeMap::from([(NAMESPACE.to_owned(), namespace.to_owned())]));
    let mut own = OwnWorkload {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        port: addr.port(),
        protocol,
        is_opaque,
        endpoint,
    };
    own.endpoint.resource_ref = Some(own.metadata());
    Some(own)
}

impl OwnWorkload {
    /// The resource of the workload.
    pub(super) fn metadata(&self) -> Metadata {
        let resource = Resource {
            group: "catalog".to_owned(),
            kind: "Workload".to_owned(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            section: String::new(),
            port: self.port.into(),
        };
        Metadata { kind: Some(metadata::Kind::Resource(resource)) }
    }
}
