//! An export of Consul's catalog as a source: the answer of `/v1/catalog/service/NAME` or `/v1/health/service/NAME`, or
//! an object of such answers by name, as written by a script that asks for each.
//!
//! An instance becomes a workload named after its service id, with the service's address, or the node's if the service
//! has none, and one port, `main`. Tags and meta become metadata; a passing weight becomes the weight. The service
//! selects its instances. Results of checks are not loaded: they would be out of date at once.

use std::collections::BTreeMap;

use mortise_resource::grpc::catalog::{ServicePort, Workload, WorkloadAddress, WorkloadPort};
use serde::Deserialize;
use serde_json::Value;

use super::plan::{FoundWorkload, LoadPlan, metadata, resource_name};

/// Name of an instance's port; ports have no names in Consul.
const PORT: &str = "main";

/// Instance in an answer of the catalog.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct CatalogService {
    node: String,
    address: String,
    #[serde(rename = "ServiceID")]
    service_id: String,
    service_name: String,
    service_address: String,
    service_port: u32,
    service_tags: Option<Vec<String>>,
    service_meta: Option<BTreeMap<String, String>>,
    service_weights: Option<Weights>,
}

/// Instance in an answer about health.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HealthService {
    node: Node,
    service: AgentService,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Node {
    node: String,
    address: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct AgentService {
    #[serde(rename = "ID")]
    id: String,
    service: String,
    address: String,
    port: u32,
    tags: Option<Vec<String>>,
    meta: Option<BTreeMap<String, String>>,
    weights: Option<Weights>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Weights {
    passing: u32,
}

impl From<HealthService> for CatalogService {
    fn from(HealthService { node, service }: HealthService) -> Self {
        Self {
            node: node.node,
            address: node.address,
            service_id: service.id,
            service_name: service.service,
            service_address: service.address,
            service_port: service.port,
            service_tags: service.tags,
            service_meta: service.meta,
            service_weights: service.weights,
        }
    }
}

/// Reads an export.
///
/// # Errors
/// The text is not JSON.
pub(super) fn read(text: &str) -> Result<LoadPlan, serde_json::Error> {
    let mut plan = LoadPlan::default();
    match serde_json::from_str(text)? {
        Value::Array(items) => add_all(&mut plan, "", items),
        Value::Object(named) => {
            for (name, value) in named {
                match value {
                    Value::Array(items) if items.iter().all(Value::is_object) && !items.is_empty() => {
                        add_all(&mut plan, &name, items);
                    }
                    _ => plan.skip(name, "it lists no instances; export /v1/catalog/service/NAME instead"),
                }
            }
        }
        _ => plan.skip("the file", "it is neither a list of instances nor an object of such lists"),
    }
    Ok(plan)
}

fn add_all(plan: &mut LoadPlan, name: &str, items: Vec<Value>) {
    for (item, index) in items.into_iter().zip(0_usize..) {
        let place = format!("{name}[{index}]");
        let read = if item.get("Service").is_some_and(Value::is_object) {
            serde_json::from_value::<HealthService>(item).map(CatalogService::from)
        } else {
            serde_json::from_value::<CatalogService>(item)
        };
        match read {
            Ok(instance) => add(plan, &place, instance),
            Err(fault) => plan.skip(place, format!("it is not an instance of a service: {fault}")),
        }
    }
}

fn add(plan: &mut LoadPlan, place: &str, instance: CatalogService) {
    let Some(service) = resource_name(&instance.service_name) else {
        return plan.skip(place, "its ServiceName is missing or cannot be the name of a resource");
    };
    if !plan.claim(&service, &instance.service_name, place) {
        return;
    }
    let id = if instance.service_id.is_empty() { &instance.service_name } else { &instance.service_id };
    // Ids are unique on one node only.
    let own = resource_name(id).filter(|name| !plan.workloads.contains_key(name));
    let Some(name) = own.or_else(|| resource_name(&format!("{id}-{}", instance.node))) else {
        return plan.skip(place, "its ServiceID cannot be the name of a resource");
    };
    let host = if instance.service_address.is_empty() { &instance.address } else { &instance.service_address };
    if host.is_empty() {
        return plan.skip(place, "it has neither a ServiceAddress nor an Address");
    }
    let mut pairs = metadata(instance.service_meta.iter().flatten());
    if let Some(tags) = instance.service_tags.filter(|tags| !tags.is_empty()) {
        pairs.insert("tags".to_owned(), tags.join(","));
    }
    let port = instance.service_port;
    let ports = if port == 0 { Vec::new() } else { vec![WorkloadPort { name: PORT.into(), port, protocol: 0 }] };
    let offered: Vec<_> =
        ports.iter().map(|port| ServicePort { name: PORT.into(), port: port.port, ..ServicePort::default() }).collect();
    let data = Workload {
        addresses: vec![WorkloadAddress { host: host.to_ascii_lowercase(), ports: Vec::new() }],
        ports,
        weight: instance.service_weights.map_or(0, |weights| weights.passing),
        ..Workload::default()
    };
    if plan.add_workload(&name, FoundWorkload { place: place.to_owned(), metadata: pairs, data }) {
        plan.select(&service, place, &name, &offered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let catalog = r#"[
            {"Node": "n1", "Address": "10.0.0.1", "ServiceID": "web-1", "ServiceName": "web", "ServiceAddress": "",
             "ServicePort": 8080, "ServiceTags": ["v1", "eu"], "ServiceMeta": {"tier": "front"},
             "ServiceWeights": {"Passing": 3, "Warning": 1}},
            {"Node": "n2", "Address": "10.0.0.2", "ServiceID": "web-1", "ServiceName": "web", "ServicePort": 8081},
            {"Node": "n3", "ServiceName": "web"},
            {"Node": "n4", "Address": "10.0.0.4"},
            3
        ]"#;
        let plan = read(catalog).unwrap();
        assert_eq!(plan.workloads.keys().collect::<Vec<_>>(), ["web-1", "web-1-n2"]);
        let workload = &plan.workloads["web-1"];
        assert_eq!(
            (workload.data.addresses[0].host.as_str(), workload.data.ports[0].port, workload.data.weight),
            ("10.0.0.1", 8080, 3)
        );
        assert_eq!((workload.metadata["tags"].as_str(), workload.metadata["tier"].as_str()), ("v1,eu", "front"));
        assert_eq!(plan.services["web"].workloads.len(), 2);
        let places: Vec<_> = plan.skipped.iter().map(|skipped| skipped.place.as_str()).collect();
        assert_eq!(places, ["[2]", "[3]", "[4]"]);

        let health = r#"{"db": [{"Node": {"Node": "n1", "Address": "10.0.0.1"}, "Checks": [],
            "Service": {"ID": "db", "Service": "db", "Address": "10.1.0.1", "Port": 5432, "Tags": null}}],
            "web": ["v1"], "empty": []}"#;
        let plan = read(health).unwrap();
        assert_eq!(plan.workloads["db"].data.addresses[0].host, "10.1.0.1");
        assert_eq!(plan.skipped.iter().map(|skipped| skipped.place.as_str()).collect::<Vec<_>>(), ["empty", "web"]);
        assert!(read("{").is_err());
    }
}
