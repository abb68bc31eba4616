//! Workloads of a service: the ports of each, and their addresses.

use std::{collections::BTreeSet, net::IpAddr};

use mortise_resource::grpc::catalog::{Protocol, ServicePort, Workload, WorkloadAddress, WorkloadPort};

use crate::commands::catalog::plan::{MAX_ADDRESSES, MAX_WORKLOADS, resource_name};

/// A port of the container, published or not.
#[derive(Debug, Clone)]
pub(super) struct Port {
    pub(super) target: u16,
    pub(super) name: String,
    pub(super) protocol: Protocol,
    /// Number at the addresses.
    pub(super) number: u16,
    /// Addresses at which it is published; empty for the container's own.
    pub(super) hosts: BTreeSet<IpAddr>,
}

/// Ports of one workload: each number has one target, and each target one number.
pub(super) type Layer = Vec<Port>;

/// Workloads of one replica: their ports, and the name of the container if no port is published.
pub(super) struct Group {
    /// Number of the replica, if there are several.
    pub(super) replica: Option<usize>,
    pub(super) layers: Vec<Layer>,
    pub(super) host: String,
}

impl Group {
    /// Names, data and offered ports of the workloads.
    pub(super) fn workloads(self, legal: &str) -> Vec<(String, Workload, Vec<ServicePort>)> {
        let base = self.replica.map_or_else(|| legal.to_owned(), |number| format!("{legal}-{number}"));
        let workload = |(layer, index): (Layer, usize)| {
            let first = layer.first().map_or(0, |port| port.number);
            let name = if index == 0 { base.clone() } else { format!("{base}-{first}") };
            let hosts: BTreeSet<String> =
                layer.iter().flat_map(|port| port.hosts.iter().map(IpAddr::to_string)).collect();
            let address = |host: &String| {
                let here = |port: &&Port| hosts.len() == 1 || port.hosts.iter().any(|ip| ip.to_string() == *host);
                let ports = layer.iter().filter(here).map(|port| port.name.clone()).collect();
                WorkloadAddress { host: host.clone(), ports }
            };
            let mut addresses: Vec<_> = hosts.iter().map(address).collect();
            if addresses.is_empty() {
                let ports = layer.iter().map(|port| port.name.clone()).collect();
                addresses.push(WorkloadAddress { host: self.host.clone(), ports });
            }
            let ports = layer.iter().map(|port| WorkloadPort {
                name: port.name.clone(),
                port: port.number.into(),
                protocol: port.protocol.into(),
                opaque: false,
            });
            let offered = layer.iter().map(|port| ServicePort {
                name: port.name.clone(),
                port: port.target.into(),
                target_port: port.name.clone(),
                protocol: port.protocol.into(),
                opaque: false,
            });
            let data = Workload { addresses, ports: ports.collect(), ..Workload::default() };
            (resource_name(&name).unwrap_or(name), data, offered.collect())
        };
        self.layers.into_iter().zip(0_usize..).map(workload).collect()
    }
}

/// The reason for which a published port is left out.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeftOut {
    #[error("{host} has the port {number} for {target} already")]
    Taken { host: IpAddr, number: u16, target: u16 },
    #[error("its service has {MAX_WORKLOADS} workloads already")]
    Full,
}

/// Adds a published port to the first workload that can have it.
///
/// # Errors
/// The reason for which the port is left out.
pub(super) fn publish(layers: &mut Vec<Layer>, port: Port, host: IpAddr) -> Result<(), LeftOut> {
    let is_taken = |known: &&Port| known.number == port.number && known.hosts.contains(&host);
    if let Some(known) = layers.iter().flatten().find(is_taken) {
        return match known.target == port.target {
            true => Ok(()),
            false => Err(LeftOut::Taken { host, number: port.number, target: known.target }),
        };
    }
    for layer in layers.iter_mut() {
        let others = layer.iter().filter(|known| known.target != port.target);
        let is_other = others.clone().any(|known| known.number == port.number);
        let addresses: BTreeSet<_> = layer.iter().flat_map(|known| known.hosts.iter().copied()).chain([host]).collect();
        if is_other || addresses.len() > MAX_ADDRESSES {
            continue;
        }
        match layer.iter_mut().find(|known| known.target == port.target) {
            Some(known) if known.number == port.number => {
                known.hosts.insert(host);
                return Ok(());
            }
            Some(_) => {}
            None => {
                layer.push(port);
                return Ok(());
            }
        }
    }
    if layers.len() == MAX_WORKLOADS {
        return Err(LeftOut::Full);
    }
    layers.push(vec![port]);
    Ok(())
}
