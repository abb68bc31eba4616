//! A service of a compose file as a service and its workloads.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use mortise_resource::{
    grpc::catalog::{ServicePort, Workload},
    name,
};

use super::{
    Options,
    groups::{Group, Layer, Port, publish},
    health::FoundCheck,
    node::Node,
    ports::{PortEntry, PortError, Published, port_name},
};
use crate::commands::catalog::plan::{
    FoundWorkload, LoadPlan, MAX_PORTS, MAX_WORKLOADS, Place, metadata, resource_name,
};

/// A service while it is read.
struct Reading<'s> {
    node: &'s Node,
    name: &'s str,
    options: &'s Options<'s>,
    project: &'s str,
    plan: &'s mut LoadPlan,
    /// Names of the ports by the container's numbers.
    names: BTreeMap<u16, String>,
}

/// Adds the service and its workloads to the plan.
pub(super) fn add(plan: &mut LoadPlan, name: &str, node: &Node, project: &str, options: &Options<'_>) {
    let place = node.place.clone();
    let Some(legal) = resource_name(name) else {
        return plan.skip(place, "its name cannot be the name of a resource");
    };
    if !plan.claim(&legal, name, &place) {
        return;
    }
    if legal != name {
        plan.note(place.clone(), format!("its name becomes {legal:?}"));
    }
    if node.text("network_mode") == Some("none") {
        return plan.skip(place, "it has no network");
    }
    let mut reading = Reading { node, name, options, project, plan, names: BTreeMap::new() };
    let replicas = reading.replicas();
    let groups = reading.groups(replicas);
    let check = reading.check();
    let labels = node.get("labels").map(Node::pairs).unwrap_or_default();
    if groups.is_empty() {
        // Without a name a service would select every workload.
        reading.plan.select(&legal, &place, &legal, &[]);
    }
    for (workload, data, offered) in groups.into_iter().flat_map(|group| group.workloads(&legal)) {
        let mut data = data;
        reading.add_check(&mut data, &offered, check.as_ref());
        let found = FoundWorkload { place: place.clone(), metadata: metadata(&labels), data };
        if reading.plan.services.get(&legal).is_some_and(|service| service.workloads.len() == MAX_WORKLOADS) {
            return reading.plan.skip(place, format!("it has more than {MAX_WORKLOADS} workloads"));
        }
        if reading.plan.add_workload(&workload, found) {
            reading.plan.select(&legal, &place, &workload, &offered);
        }
    }
}

impl Reading<'_> {
    fn skip(&mut self, place: &Place, reason: impl Into<String>) {
        self.plan.skip(place.clone(), reason);
    }

    /// Number of containers.
    fn replicas(&mut self) -> usize {
        let deploy = self.node.get("deploy").and_then(|deploy| deploy.get("replicas"));
        let Some(node) = deploy.or_else(|| self.node.get("scale")) else { return 1 };
        match node.scalar().and_then(|text| text.parse().ok()) {
            Some(replicas) if replicas <= MAX_WORKLOADS => replicas,
            Some(replicas) => {
                self.skip(&node.place, format!("only {MAX_WORKLOADS} of {replicas} replicas are loaded"));
                MAX_WORKLOADS
            }
            None => {
                self.skip(&node.place, "it is not a number of replicas");
                1
            }
        }
    }

    /// Makes the ports and addresses of each replica.
    fn groups(&mut self, replicas: usize) -> Vec<Group> {
        let read = self.node.get("ports").map(|ports| self.entries(ports, PortEntry::read)).unwrap_or_default();
        let exposed = self.node.get("expose").map(|ports| self.entries(ports, PortEntry::read_exposed));
        let exposed = exposed.unwrap_or_default();
        if self.node.text("network_mode") == Some("host") {
            let hosts = BTreeSet::from([self.options.address]);
            let layer = self.open(read.iter().chain(&exposed), &hosts);
            self.note_together(replicas);
            let host = self.options.address.to_string();
            let group = Group { replica: None, layers: vec![layer], host };
            return Some(group).filter(|_| replicas > 0).into_iter().collect();
        }
        if read.iter().any(|(_, port)| port.published != Published::Random) {
            let groups = self.published(&read, replicas);
            if replicas == 0 || groups.iter().any(|group| !group.layers.is_empty()) {
                return groups;
            }
        }
        let layer = self.open(read.iter().chain(&exposed), &BTreeSet::new());
        let group = |(replica, host)| Group { replica, layers: vec![layer.clone()], host };
        self.hosts(replicas).into_iter().map(group).collect()
    }

    /// Makes the published ports of each replica. A range of numbers for one port gives each replica its own number.
    fn published(&mut self, entries: &[(Place, PortEntry)], replicas: usize) -> Vec<Group> {
        let group = |replica, layers| Group { replica, layers, host: String::new() };
        let is_choice = |(_, port): &(Place, PortEntry)| matches!(port.published, Published::OneOf(_));
        if replicas > 1 && entries.iter().any(is_choice) {
            let layers = |index| (index, self.layers(entries, Some(index), replicas));
            return (0..replicas).map(layers).map(|(index, layers)| group(Some(index + 1), layers)).collect();
        }
        self.note_together(replicas);
        let group = group(None, self.layers(entries, None, replicas));
        Some(group).filter(|_| replicas > 0).into_iter().collect()
    }

    /// Remarks that several replicas have one address.
    fn note_together(&mut self, replicas: usize) {
        if replicas > 1 {
            let text = format!("its {replicas} replicas are behind one published address; one workload is made");
            self.plan.note(self.node.place.clone(), text);
        }
    }

    /// Reads all entries; malformed ones are left out, with a note.
    fn entries(&mut self, node: &Node, read: fn(&Node) -> Result<PortEntry, PortError>) -> Vec<(Place, PortEntry)> {
        let entry = |item: &Node| match read(item) {
            Ok(port) => Some((item.place.clone(), port)),
            Err(error) => {
                self.plan.skip(item.place.clone(), error.to_string());
                None
            }
        };
        node.items().iter().filter_map(entry).collect()
    }

    /// Name of a port, the same in all workloads; `None` if there are too many ports.
    fn name(&mut self, target: u16, wanted: Option<&String>) -> Option<String> {
        if let Some(known) = self.names.get(&target) {
            return Some(known.clone());
        }
        if self.names.len() == MAX_PORTS {
            return None;
        }
        let is_free = |name: &&String| !self.names.values().any(|known| known == *name);
        let name = wanted.filter(is_free).cloned().unwrap_or_else(|| port_name(target));
        let name = if is_free(&&name) { name } else { format!("port-{target}") };
        self.names.insert(target, name.clone());
        Some(name)
    }

    /// Ports at the container's own numbers.
    fn open<'p>(&mut self, entries: impl Iterator<Item = &'p (Place, PortEntry)>, hosts: &BTreeSet<IpAddr>) -> Layer {
        let mut layer = Layer::new();
        for (place, entry) in entries {
            for target in entry.targets.clone() {
                let Some(name) = self.name(target, entry.name.as_ref()) else {
                    self.skip(place, format!("its service has {MAX_PORTS} ports already"));
                    break;
                };
                if !layer.iter().any(|port| port.target == target) {
                    let hosts = hosts.clone();
                    layer.push(Port { target, name, protocol: entry.protocol, number: target, hosts });
                }
            }
        }
        layer
    }

    /// Published ports of a replica. A target with a second number, or a number with a second target, begins a further
    /// workload.
    fn layers(&mut self, entries: &[(Place, PortEntry)], replica: Option<usize>, replicas: usize) -> Vec<Layer> {
        let mut layers: Vec<Layer> = Vec::new();
        let is_first = replica.is_none_or(|index| index == 0);
        for (place, entry) in entries {
            let first = match (&entry.published, replica) {
                (Published::From(first), _) => *first,
                (Published::OneOf(range), Some(index)) if range.len() == replicas => {
                    range.clone().nth(index).unwrap_or(*range.start())
                }
                (published, _) => {
                    if is_first {
                        self.skip(place, reason(published));
                    }
                    continue;
                }
            };
            let host = entry.host.unwrap_or(self.options.address);
            for (target, number) in entry.targets.clone().zip(first..=u16::MAX) {
                let Some(name) = self.name(target, entry.name.as_ref()) else {
                    self.skip(place, format!("its service has {MAX_PORTS} ports already"));
                    break;
                };
                let port = Port { target, name, protocol: entry.protocol, number, hosts: BTreeSet::from([host]) };
                if let Err(reason) = publish(&mut layers, port, host) {
                    self.skip(place, reason.to_string());
                    break;
                }
            }
        }
        layers
    }

    /// Names at which the containers are reached, with their numbers if there are several.
    fn hosts(&mut self, replicas: usize) -> Vec<(Option<usize>, String)> {
        let networks = self.node.get("networks");
        let networks = || networks.and_then(Node::map).into_iter().flat_map(|networks| networks.values());
        let fixed = networks().find_map(|network| {
            let ip = network.text("ipv4_address").or_else(|| network.text("ipv6_address"))?;
            ip.parse::<IpAddr>().ok()
        });
        let container = self.node.text("container_name");
        if replicas > 1 && fixed.is_none() && container.is_none() {
            let is_kept = |letter: &char| letter.is_ascii_alphanumeric() || "-_".contains(*letter);
            let project: String = self.project.to_lowercase().chars().filter(is_kept).collect();
            let names = (1..=replicas).map(|number| (Some(number), format!("{project}-{}-{number}", self.name)));
            let names: Vec<_> = names.collect();
            return names.into_iter().map(|(number, host)| (number, self.dns_name(&[&host]))).collect();
        }
        if replicas > 1 {
            let place = self.node.place.clone();
            self.skip(&place, format!("only one of {replicas} replicas can have its fixed address or name"));
        }
        let host = match (fixed, self.node.text("network_mode").and_then(|mode| mode.split_once(':'))) {
            (Some(ip), _) => ip.to_string(),
            (None, Some(("service" | "container", other))) => self.dns_name(&[other]),
            (None, _) => {
                let aliases = networks().filter_map(|network| network.get("aliases")).flat_map(|node| node.items());
                let names = [container, self.node.text("hostname")].into_iter().flatten().chain([self.name]);
                let names: Vec<&str> = names.chain(aliases.filter_map(Node::scalar)).collect();
                self.dns_name(&names)
            }
        };
        (0..replicas.min(1)).map(|_| (None, host.clone())).collect()
    }

    /// The first of the names that is a DNS name; else the first one, made valid, with a note.
    fn dns_name(&mut self, names: &[&str]) -> String {
        // Resolvers take a name for an address if its last part is a number.
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let is_host = |name: &String| name::is_dns_name(name) && !name.rsplit('.').next().is_some_and(is_number);
        if let Some(name) = names.iter().map(|name| name.to_lowercase()).find(is_host) {
            return name;
        }
        let given = names.first().copied().unwrap_or_default();
        let host = resource_name(given).filter(is_host).unwrap_or_else(|| "container".to_owned());
        let text = format!("{given:?} is not a DNS name: clients are sent to {host:?}; give the container that alias");
        self.plan.note(self.node.place.clone(), text);
        host
    }

    /// Reads the health check.
    fn check(&mut self) -> Option<(Place, FoundCheck)> {
        let node = self.node.get("healthcheck")?;
        let own = [Some(self.name), self.node.text("container_name"), self.node.text("hostname")];
        let own: Vec<&str> = own.into_iter().flatten().collect();
        match FoundCheck::read(node, &own) {
            Ok(None) => None,
            Ok(Some(check)) => {
                for change in &check.changes {
                    self.plan.note(node.place.clone(), change.clone());
                }
                Some((node.place.clone(), check))
            }
            Err(error) => {
                self.skip(&node.place, error.to_string());
                None
            }
        }
    }

    /// Adds the health check to a workload that has its port.
    fn add_check(&mut self, data: &mut Workload, offered: &[ServicePort], check: Option<&(Place, FoundCheck)>) {
        let Some((place, check)) = check else { return };
        let target = u32::from(check.target());
        let Some(port) = offered.iter().find(|port| port.port == target) else {
            return self.skip(place, format!("it asks port {target}, which the service neither publishes nor exposes"));
        };
        data.checks.push(check.check(&port.name));
        // The server asks the first address.
        data.addresses.sort_by_key(|address| !address.ports.contains(&port.name));
    }
}

/// Reason why an entry has no number.
fn reason(published: &Published) -> String {
    match published {
        Published::OneOf(range) => {
            format!("it is published at one of {} numbers; give as many replicas, or one number", range.len())
        }
        _ => "it is published at a random number; publish it as \"8080:80\"".to_owned(),
    }
}
