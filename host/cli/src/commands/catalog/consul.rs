//! An export of Consul's catalog as a source: the answer of `/v1/catalog/service/NAME` or `/v1/health/service/NAME`, or
//! an object of such answers by name, as written by a script that asks for each.
//!
//! An instance becomes a workload named after its service id, with the service's address, or the node's if the service
//! has none, and one port, `main`. Tags and meta become metadata. The service selects its instances.
//!
//! The states of checks are in answers about health. A critical check becomes a check of the kind `ttl` without a
//! result, so the instance is unhealthy until a client reports or the export is loaded again. Passing checks become
//! nothing: a result would end with its time. The weight is the one for warnings if a check warns, else the one for
//! passing.

use std::{collections::BTreeMap, sync::Arc};

use mortise_resource::grpc::catalog::{
    HealthCheck, ServicePort, Workload, WorkloadAddress, WorkloadPort, health_check::Check,
};
use mortise_text::{Diagnostics, Format, Limits, PlainNode, PlainValue, Source, file_name, plain_nodes};
use serde::Deserialize;
use serde_json::Value;

use super::plan::{FoundWorkload, LoadPlan, Place, metadata, resource_name};

/// Name of an instance's port; ports have no names in Consul.
const PORT: &str = "main";

/// Time for which a later report about an imported check holds, seconds; the longest that a check may have.
const REPORT_SECONDS: i64 = 86_400;

/// Most checks of a workload, and longest name of a check; the server rejects more.
const MAX_CHECKS: usize = 16;
const MAX_CHECK_NAME_BYTES: usize = 40;

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
    #[serde(skip)]
    checks: Vec<ConsulCheck>,
}

/// Instance in an answer about health.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HealthService {
    node: Node,
    service: AgentService,
    #[serde(default)]
    checks: Option<Vec<ConsulCheck>>,
}

/// Check of an instance or of its node, with its state.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ConsulCheck {
    #[serde(rename = "CheckID")]
    check_id: String,
    status: String,
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
    warning: u32,
}

impl From<HealthService> for CatalogService {
    fn from(HealthService { node, service, checks }: HealthService) -> Self {
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
            checks: checks.unwrap_or_default(),
        }
    }
}

/// Reads an export.
///
/// # Errors
/// The text is not JSON.
pub(super) fn read(source: Source<'_>) -> Result<LoadPlan, Diagnostics> {
    let mut plan = LoadPlan::default();
    let file: Arc<str> = file_name(source.name).into();
    let limits = Limits { documents: 1, ..Limits::default() };
    let Some(root) = plain_nodes(source, Format::Json, &limits)?.pop() else { return Ok(plan) };
    match root.value {
        PlainValue::List(items) => add_all(&mut plan, &file, "", items),
        PlainValue::Map(named) => {
            for (name, PlainNode { line, value }) in named {
                match value {
                    PlainValue::List(items) if is_list_of_maps(&items) => add_all(&mut plan, &file, &name, items),
                    _ => plan.skip(
                        Place { path: name, ..Place::line(&file, line) },
                        "it lists no instances; export /v1/catalog/service/NAME instead",
                    ),
                }
            }
        }
        _ => plan
            .skip(Place::line(&file, root.line), "the file is neither a list of instances nor an object of such lists"),
    }
    Ok(plan)
}

fn is_list_of_maps(items: &[PlainNode]) -> bool {
    !items.is_empty() && items.iter().all(|item| matches!(item.value, PlainValue::Map(_)))
}

fn add_all(plan: &mut LoadPlan, file: &Arc<str>, name: &str, items: Vec<PlainNode>) {
    for (PlainNode { line, value }, index) in items.into_iter().zip(0_usize..) {
        let place = Place { path: format!("{name}[{index}]"), ..Place::line(file, line) };
        let item = Value::from(value);
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

/// Weight of an instance by the states of its checks.
fn weight(instance: &CatalogService) -> u32 {
    let warns = instance.checks.iter().any(|check| check.status == "warning");
    let weight = |weights: &Weights| if warns { weights.warning } else { weights.passing };
    instance.service_weights.as_ref().map_or(0, weight)
}

/// Makes checks without a result of those that are critical.
fn critical_checks(plan: &mut LoadPlan, place: &Place, name: &str, checks: &[ConsulCheck]) -> Vec<HealthCheck> {
    let mut found: Vec<HealthCheck> = Vec::new();
    for check in checks {
        match check.status.as_str() {
            "passing" | "warning" => continue,
            "critical" | "maintenance" => {}
            other => {
                plan.skip(place.clone(), format!("the state {other:?} of its check {:?} is unknown", check.check_id));
                continue;
            }
        }
        let short: String = check.check_id.chars().take(MAX_CHECK_NAME_BYTES).collect();
        let legal = resource_name(&short).unwrap_or_else(|| format!("check-{}", found.len() + 1));
        if found.iter().any(|known| known.name == legal) {
            continue;
        }
        if found.len() == MAX_CHECKS {
            plan.skip(place.clone(), format!("{name} has {MAX_CHECKS} critical checks already"));
            break;
        }
        plan.note(
            place.clone(),
            format!(
                "the check {:?} is critical: {name} is unhealthy until `mortise catalog report {name} {legal} --passing`, or \
                 until it is loaded without this state",
                check.check_id
            ),
        );
        let ttl = prost_types::Duration { seconds: REPORT_SECONDS, nanos: 0 };
        found.push(HealthCheck { name: legal, check: Some(Check::Ttl(ttl)), ..HealthCheck::default() });
    }
    found
}

fn add(plan: &mut LoadPlan, place: &Place, instance: CatalogService) {
    let Some(service) = resource_name(&instance.service_name) else {
        return plan.skip(place.clone(), "its ServiceName is missing or cannot be the name of a resource");
    };
    if !plan.claim(&service, &instance.service_name, place) {
        return;
    }
    let id = if instance.service_id.is_empty() { &instance.service_name } else { &instance.service_id };
    // Ids are unique on one node only.
    let own = resource_name(id).filter(|name| !plan.workloads.contains_key(name));
    let Some(name) = own.or_else(|| resource_name(&format!("{id}-{}", instance.node))) else {
        return plan.skip(place.clone(), "its ServiceID cannot be the name of a resource");
    };
    let host = if instance.service_address.is_empty() { &instance.address } else { &instance.service_address };
    if host.is_empty() {
        return plan.skip(place.clone(), "it has neither a ServiceAddress nor an Address");
    }
    let (weight, checks) = (weight(&instance), critical_checks(plan, place, &name, &instance.checks));
    let mut pairs = metadata(instance.service_meta.iter().flatten());
    if let Some(tags) = instance.service_tags.filter(|tags| !tags.is_empty()) {
        pairs.insert("tags".to_owned(), tags.join(","));
    }
    let port = instance.service_port;
    let ports =
        if port == 0 { Vec::new() } else { vec![WorkloadPort { name: PORT.into(), port, protocol: 0, opaque: false }] };
    let offered: Vec<_> =
        ports.iter().map(|port| ServicePort { name: PORT.into(), port: port.port, ..ServicePort::default() }).collect();
    let data = Workload {
        addresses: vec![WorkloadAddress { host: host.to_ascii_lowercase(), ports: Vec::new() }],
        ports,
        weight,
        checks,
        ..Workload::default()
    };
    if plan.add_workload(&name, FoundWorkload { place: place.clone(), metadata: pairs, data }) {
        plan.select(&service, place, &name, &offered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<LoadPlan, Diagnostics> {
        super::read(Source { name: "dump.json", text })
    }

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
        let places: Vec<_> = plan.skipped.iter().map(|skipped| skipped.place.to_string()).collect();
        assert_eq!(places, ["dump.json:6: [2]", "dump.json:7: [3]", "dump.json:8: [4]"]);

        let health = r#"{"db": [{"Node": {"Node": "n1", "Address": "10.0.0.1"}, "Checks": [],
            "Service": {"ID": "db", "Service": "db", "Address": "10.1.0.1", "Port": 5432, "Tags": null}}],
            "web": ["v1"], "empty": []}"#;
        let plan = read(health).unwrap();
        assert_eq!(plan.workloads["db"].data.addresses[0].host, "10.1.0.1");
        assert_eq!(
            plan.skipped.iter().map(|skipped| skipped.place.path.as_str()).collect::<Vec<_>>(),
            ["empty", "web"]
        );
        assert!(read("{").is_err());
    }

    #[test]
    fn states_of_checks_decide_health_and_weight() {
        let text = r#"[
            {"Node": {"Node": "n1", "Address": "10.0.0.1"},
             "Service": {"ID": "web-1", "Service": "web", "Port": 80, "Weights": {"Passing": 5, "Warning": 2}},
             "Checks": [{"CheckID": "serfHealth", "Status": "passing"}, {"CheckID": "service:web-1", "Status": "warning"}]},
            {"Node": {"Node": "n2", "Address": "10.0.0.2"},
             "Service": {"ID": "web-2", "Service": "web", "Port": 80, "Weights": {"Passing": 5, "Warning": 2}},
             "Checks": [{"CheckID": "service:web-2", "Status": "critical"}, {"CheckID": "odd", "Status": "asleep"}]}
        ]"#;
        let plan = read(text).unwrap();
        let web = |name: &str| &plan.workloads[name].data;
        assert_eq!((web("web-1").weight, web("web-1").checks.len()), (2, 0));
        assert_eq!((web("web-2").weight, web("web-2").checks[0].name.as_str()), (5, "service-web-2"));
        assert!(matches!(web("web-2").checks[0].check, Some(Check::Ttl(_))), "it fails until a report");
        assert!(plan.notes[0].text.contains("mortise catalog report web-2 service-web-2 --passing"));
        assert_eq!(plan.skipped[0].text, r#"the state "asleep" of its check "odd" is unknown"#);
    }

    #[test]
    fn critical_checks_beyond_those_of_a_workload_are_left_out() {
        let checks = |count: usize| {
            let check = |number: usize| format!(r#"{{"CheckID": "c-{number}", "Status": "critical"}}"#);
            let checks: Vec<_> = (0..count).map(check).collect();
            format!(
                r#"[{{"Node": {{"Node": "n", "Address": "10.0.0.1"}}, "Service": {{"ID": "web", "Service": "web"}},
                    "Checks": [{}]}}]"#,
                checks.join(", ")
            )
        };
        for (count, skipped) in [(MAX_CHECKS, 0), (MAX_CHECKS + 1, 1), (MAX_CHECKS + 2, 1)] {
            let plan = read(&checks(count)).unwrap();
            let known = plan.workloads["web"].data.checks.len();
            assert_eq!((known, plan.notes.len(), plan.skipped.len()), (MAX_CHECKS, MAX_CHECKS, skipped), "{count}");
        }
    }
}
