//! Counts the healthy and the other endpoints of services, by zone, from their ServiceEndpoints and slices.

use std::collections::BTreeMap;

use mortise_resource::{
    grpc::catalog::{Endpoint, EndpointSlice, Health, Service, ServiceEndpoints},
    pb,
};
use prost::Message;
use serde_json::{Value, json};

use crate::{
    Cell, CliError, Style,
    resources::ids::{id_of, placed_title},
};

/// Types of the resources that are counted.
pub(super) const SERVICE: &str = "catalog.v1.Service";
pub(super) const ENDPOINTS: &str = "catalog.v1.ServiceEndpoints";
pub(super) const SLICE: &str = "catalog.v1.EndpointSlice";

/// Namespace and name of a service.
pub(super) type ServiceName = (String, String);

/// Endpoints of a service, or of one of its zones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) healthy: usize,
    pub(super) total: usize,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.healthy += other.healthy;
        self.total += other.total;
    }

    /// Share of the healthy endpoints, 0 to 1; 0 without any endpoint.
    pub(super) fn share(self) -> f64 {
        self.healthy as f64 / self.total.max(1) as f64
    }

    /// Cell of a table.
    pub(super) fn cell(self) -> Cell {
        let style = match self {
            Self { healthy: 0, .. } => Style::Bad,
            Self { healthy, total } if healthy < total => Style::Warn,
            Self { .. } => Style::Good,
        };
        Cell::styled(style, self.to_string())
    }

    fn json(self) -> Value {
        json!({ "healthy": self.healthy, "total": self.total })
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.healthy, self.total)
    }
}

/// Counts by zone; endpoints without a zone are under the empty one.
type Zones = BTreeMap<String, Count>;

/// A service: its ports, and the counts of its endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// Names and numbers.
    pub(super) ports: Vec<(String, u32)>,
    pub(super) zones: Zones,
}

impl Summary {
    /// The endpoints of all zones.
    pub(super) fn count(&self) -> Count {
        let mut all = Count::default();
        self.zones.values().for_each(|zone| all.add(*zone));
        all
    }

    /// Zones with their counts, as text.
    pub(super) fn zones(&self) -> String {
        let shown = |(zone, count): (&String, &Count)| {
            let zone = if zone.is_empty() { "-" } else { zone };
            format!("{zone} {count}")
        };
        self.zones.iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    /// Ports as text.
    pub(super) fn ports(&self) -> String {
        self.ports.iter().map(|(name, number)| format!("{name}:{number}")).collect::<Vec<_>>().join(", ")
    }

    /// The service as JSON.
    pub(super) fn json(&self, (namespace, name): &ServiceName) -> Value {
        let Count { healthy, total } = self.count();
        let zones: serde_json::Map<_, _> =
            self.zones.iter().map(|(zone, count)| (zone.clone(), count.json())).collect();
        let port = |(name, number): &(String, u32)| json!({ "name": name, "port": number });
        json!({
            "namespace": namespace,
            "name": name,
            "healthy": healthy,
            "total": total,
            "zones": zones,
            "ports": self.ports.iter().map(port).collect::<Vec<_>>(),
        })
    }
}

/// A service, as far as its resources were seen.
#[derive(Debug, Default)]
struct Seen {
    /// Ports of the Service.
    defined: Option<Vec<(String, u32)>>,
    /// Ports of the ServiceEndpoints.
    computed: Option<Vec<(String, u32)>>,
    /// Endpoints of each slice by its name; those of the ServiceEndpoints are under the empty one.
    parts: BTreeMap<String, Zones>,
}

/// All services, kept up to date by their resources.
#[derive(Debug, Default)]
pub(super) struct Tally {
    services: BTreeMap<ServiceName, Seen>,
}

impl Tally {
    /// Takes a resource of one of the three types, or its deletion. Returns its service.
    ///
    /// # Errors
    /// Its data cannot be decoded.
    pub(super) fn take(&mut self, resource: &pb::Resource, is_there: bool) -> Result<ServiceName, CliError> {
        let id = id_of(resource);
        let namespace = id.tenancy.clone().unwrap_or_default().namespace;
        let data = resource.data.as_ref().map(|data| data.value.as_slice()).unwrap_or_default();
        let broken = |error: prost::DecodeError| {
            CliError::failed(format!("{}: its data cannot be decoded", placed_title(&id))).caused_by(error)
        };
        let kind = id.r#type.as_ref().map(|name| name.kind.as_str()).unwrap_or_default();
        let (service, endpoints) = match kind {
            "Service" => {
                let decoded = Service::decode(data).map_err(broken)?;
                let ports = decoded.ports.into_iter().map(|port| (port.name, port.port)).collect();
                let service = (namespace, id.name.clone());
                self.services.entry(service.clone()).or_default().defined = is_there.then_some(ports);
                (service, None)
            }
            "ServiceEndpoints" => {
                let decoded = ServiceEndpoints::decode(data).map_err(broken)?;
                let ports = decoded.ports.into_iter().map(|port| (port.name, port.port)).collect();
                let service = (namespace, id.name.clone());
                self.services.entry(service.clone()).or_default().computed = is_there.then_some(ports);
                (service, Some((String::new(), decoded.endpoints)))
            }
            _ => {
                let decoded = EndpointSlice::decode(data).map_err(broken)?;
                ((namespace, decoded.service), Some((id.name.clone(), decoded.endpoints)))
            }
        };
        let seen = self.services.entry(service.clone()).or_default();
        if let Some((part, endpoints)) = endpoints {
            seen.parts.remove(&part);
            if is_there {
                seen.parts.insert(part, counted(&endpoints));
            }
        }
        if seen.parts.is_empty() && seen.defined.is_none() && seen.computed.is_none() {
            self.services.remove(&service);
        }
        Ok(service)
    }

    /// The services in the order of their names.
    pub(super) fn services(&self) -> impl Iterator<Item = (&ServiceName, Summary)> {
        self.services.iter().map(|(name, seen)| {
            let mut zones = Zones::new();
            for (zone, count) in seen.parts.values().flatten() {
                zones.entry(zone.clone()).or_default().add(*count);
            }
            let ports = seen.defined.clone().or_else(|| seen.computed.clone()).unwrap_or_default();
            (name, Summary { ports, zones })
        })
    }
}

/// Counts endpoints by zone.
fn counted(endpoints: &[Endpoint]) -> Zones {
    let mut zones = Zones::new();
    for endpoint in endpoints {
        let healthy = usize::from(endpoint.health() == Health::Passing);
        zones.entry(endpoint.zone.clone()).or_default().add(Count { healthy, total: 1 });
    }
    zones
}

#[cfg(test)]
mod tests {
    use mortise_resource::grpc::catalog::{ServicePort, SliceRange};

    use super::*;

    fn resource(kind: &str, name: &str, data: &impl Message) -> pb::Resource {
        let id = pb::Id {
            name: name.into(),
            r#type: Some(pb::Type { group: "catalog".into(), group_version: "v1".into(), kind: kind.into() }),
            tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: "shop".into() }),
            uid: String::new(),
        };
        let data = prost_types::Any { type_url: String::new(), value: data.encode_to_vec() };
        pb::Resource { id: Some(id), data: Some(data), ..pb::Resource::default() }
    }

    fn endpoint(zone: &str, health: Health) -> Endpoint {
        Endpoint { zone: zone.into(), health: health.into(), ..Endpoint::default() }
    }

    #[test]
    fn parts_of_a_service_add_up_and_leave_again() {
        let mut tally = Tally::default();
        let ports = vec![ServicePort { name: "http".into(), port: 80, ..ServicePort::default() }];
        let service = resource("Service", "web", &Service { ports: ports.clone(), ..Service::default() });
        let slices = vec![SliceRange { slice: "web-1".into(), from: "w".into() }];
        let endpoints = vec![endpoint("a", Health::Passing), endpoint("", Health::Critical)];
        let head = ServiceEndpoints { endpoints, slices, ..ServiceEndpoints::default() };
        let head = resource("ServiceEndpoints", "web", &head);
        let slice = EndpointSlice { service: "web".into(), endpoints: vec![endpoint("a", Health::Unspecified)] };
        let slice = resource("EndpointSlice", "web-1", &slice);
        let shown = |tally: &Tally| {
            let row = |(name, found): (&ServiceName, Summary)| {
                format!("{}/{} {} [{}] {}", name.0, name.1, found.count(), found.zones(), found.ports())
            };
            tally.services().map(row).collect::<Vec<_>>()
        };
        tally.take(&service, true).unwrap();
        assert_eq!(shown(&tally), ["shop/web 0/0 [] http:80"]);
        for one in [&slice, &head, &slice] {
            assert_eq!(tally.take(one, true).unwrap(), ("shop".to_owned(), "web".to_owned()));
        }
        assert_eq!(shown(&tally), ["shop/web 1/3 [- 0/1, a 1/2] http:80"]);
        assert_eq!(
            tally.services().next().unwrap().1.json(&("shop".into(), "web".into())),
            json!({
                "namespace": "shop", "name": "web", "healthy": 1, "total": 3, "ports": [{ "name": "http", "port": 80 }],
                "zones": { "": { "healthy": 0, "total": 1 }, "a": { "healthy": 1, "total": 2 } },
            })
        );
        tally.take(&slice, false).unwrap();
        assert_eq!(shown(&tally), ["shop/web 1/2 [- 0/1, a 1/1] http:80"]);
        tally.take(&service, false).unwrap();
        assert_eq!(shown(&tally), ["shop/web 1/2 [- 0/1, a 1/1] "], "a client wrote the endpoints");
        tally.take(&head, false).unwrap();
        assert_eq!(shown(&tally), [""; 0]);
    }
}
