//! A compose file as a source: one service and one workload for each of its services.
//!
//! A service with published ports is reached at them: at the IP address of the port, or at the one of `--address`, by
//! the published number; its clients ask for the container's number. A service without published ports is reached by
//! its container's address (`ipv4_address`) or name, at the ports that it exposes. Labels become metadata.
//!
//! Left out, with a note: UDP, ranges, values filled in from the environment, and health checks, which are commands.

use std::{collections::BTreeMap, net::IpAddr};

use mortise_resource::grpc::catalog::{ServicePort, Workload, WorkloadAddress, WorkloadPort};
use mortise_text::{Diagnostics, Limits, Source, plain_documents};
use serde::Deserialize;
use serde_json::Value;

use super::plan::{FoundWorkload, LoadPlan, MAX_PORTS, metadata, resource_name};

/// Compose file, as far as it matters here.
#[derive(Debug, Deserialize)]
struct File {
    services: BTreeMap<String, Option<Service>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Service {
    ports: Vec<Value>,
    expose: Vec<Value>,
    labels: Value,
    hostname: Option<String>,
    container_name: Option<String>,
    networks: Value,
    healthcheck: Option<Value>,
    deploy: Option<Deploy>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Deploy {
    replicas: Option<u64>,
}

/// A port that clients can reach.
struct Port {
    /// Number in the container, by which clients ask.
    target: u16,
    /// Number at the address.
    number: u16,
    /// Address at which the port is published; `None` for the default address.
    host: Option<IpAddr>,
    name: String,
}

/// Reason why a port is left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum PortError {
    #[error("only TCP is loaded")]
    Protocol,
    #[error("it is neither a text nor a map; write it as \"8080:80\"")]
    Form,
    #[error("its target is not a number from 1 to 65535")]
    Target,
    #[error("it has no address without a published number; publish it as \"8080:80\"")]
    Published,
    #[error("{0:?} is not a number from 1 to 65535; ranges are left out")]
    Number(String),
    #[error("{0:?} is not an IP address")]
    Address(String),
}

/// Reason why a text is not a compose file.
#[derive(Debug, thiserror::Error)]
pub(super) enum ComposeError {
    #[error(transparent)]
    Yaml(#[from] Diagnostics),
    #[error("{0}")]
    Form(#[from] serde_json::Error),
}

/// Reads a compose file; `address` is the default address of published ports.
///
/// # Errors
/// The text is not YAML, or has no services.
pub(super) fn read(text: &str, address: IpAddr) -> Result<LoadPlan, ComposeError> {
    let limits = Limits { documents: 1, ..Limits::default() };
    let document = plain_documents(Source { name: "compose", text }, &limits)?.pop();
    let file: File = serde_json::from_value(document.map_or(Value::Null, |document| document.value))?;
    let mut plan = LoadPlan::default();
    for (name, service) in file.services {
        add(&mut plan, &name, &service.unwrap_or_default(), address);
    }
    Ok(plan)
}

fn add(plan: &mut LoadPlan, name: &str, service: &Service, address: IpAddr) {
    let place = format!("services.{name}");
    let Some(legal) = resource_name(name) else {
        return plan.skip(place, "its name cannot be the name of a resource");
    };
    if service.healthcheck.is_some() {
        plan.skip(format!("{place}.healthcheck"), "it is a command; give the workload a check by http, tcp or ttl");
    }
    if service.deploy.as_ref().and_then(|deploy| deploy.replicas).is_some_and(|replicas| replicas != 1) {
        plan.skip(
            format!("{place}.deploy.replicas"),
            "the file does not say where each replica is; one workload is made",
        );
    }
    let mut ports: Vec<Port> = Vec::new();
    let mut published = service.ports.iter().zip(0_usize..).filter_map(|(port, index)| {
        read_port(port).map_err(|error| plan.skip(format!("{place}.ports[{index}]"), error.to_string())).ok()
    });
    for port in published.by_ref() {
        if ports.len() < MAX_PORTS && !ports.iter().any(|known| known.target == port.target || known.name == port.name)
        {
            ports.push(port);
        }
    }
    let hosts: Vec<String> = if ports.is_empty() {
        for (exposed, index) in service.expose.iter().zip(0_usize..) {
            match scalar(exposed).as_deref().and_then(tcp_number) {
                Some(_) if ports.len() == MAX_PORTS => break,
                Some(number) => ports.push(Port { target: number, number, host: None, name: port_name(number) }),
                None => plan.skip(format!("{place}.expose[{index}]"), "a TCP port is a number from 1 to 65535"),
            }
        }
        let names = [&service.container_name, &service.hostname];
        let own = names.into_iter().flatten().next().map_or(name, String::as_str);
        vec![fixed_address(&service.networks).unwrap_or_else(|| own.to_ascii_lowercase())]
    } else {
        let mut hosts: Vec<_> = ports.iter().map(|port| port.host.unwrap_or(address).to_string()).collect();
        hosts.sort();
        hosts.dedup();
        hosts
    };
    let address = |host: &String| {
        let here = |port: &&Port| hosts.len() == 1 || port.host.unwrap_or(address).to_string() == *host;
        WorkloadAddress { host: host.clone(), ports: ports.iter().filter(here).map(|port| port.name.clone()).collect() }
    };
    let data = Workload {
        addresses: hosts.iter().map(address).collect(),
        ports: ports
            .iter()
            .map(|port| WorkloadPort { name: port.name.clone(), port: port.number.into(), protocol: 0 })
            .collect(),
        ..Workload::default()
    };
    let offered: Vec<_> = ports
        .iter()
        .map(|port| ServicePort {
            name: port.name.clone(),
            port: port.target.into(),
            target_port: port.name.clone(),
            protocol: 0,
        })
        .collect();
    let labels = labels(&service.labels);
    let workload = FoundWorkload { place: place.clone(), metadata: metadata(&labels), data };
    if plan.add_workload(&legal, workload) {
        plan.select(&legal, &place, &legal, &offered);
    }
}

/// A published port: `8080:80`, `127.0.0.1:8080:80/tcp`, or the long form.
fn read_port(port: &Value) -> Result<Port, PortError> {
    if let Some(fields) = port.as_object() {
        let text = |key: &str| fields.get(key).and_then(scalar);
        if text("protocol").is_some_and(|protocol| protocol != "tcp") {
            return Err(PortError::Protocol);
        }
        let number = |key: &str| text(key).as_deref().and_then(tcp_number);
        let target = number("target").ok_or(PortError::Target)?;
        let published = number("published").ok_or(PortError::Published)?;
        let host = host_ip(text("host_ip").as_deref().unwrap_or_default())?;
        let name = text("name").as_deref().and_then(resource_name).unwrap_or_else(|| port_name(target));
        return Ok(Port { target, number: published, host, name });
    }
    let text = scalar(port).ok_or(PortError::Form)?;
    let (text, protocol) = text.rsplit_once('/').unwrap_or((&text, "tcp"));
    if protocol != "tcp" {
        return Err(PortError::Protocol);
    }
    let (published, target) = text.rsplit_once(':').ok_or(PortError::Published)?;
    let (host, published) = published.rsplit_once(':').unwrap_or(("", published));
    let number = |text: &str| tcp_number(text).ok_or_else(|| PortError::Number(text.to_owned()));
    let target = number(target)?;
    Ok(Port { target, number: number(published)?, host: host_ip(host)?, name: port_name(target) })
}

/// Address at which a port is published; `None`, the default, for every address of the machine.
fn host_ip(text: &str) -> Result<Option<IpAddr>, PortError> {
    let text = text.trim_start_matches('[').trim_end_matches(']');
    if text.is_empty() {
        return Ok(None);
    }
    let ip: IpAddr = text.parse().map_err(|_| PortError::Address(text.to_owned()))?;
    Ok(Some(ip).filter(|ip| !ip.is_unspecified()))
}

fn tcp_number(text: &str) -> Option<u16> {
    text.strip_suffix("/tcp").unwrap_or(text).parse().ok().filter(|number| *number != 0)
}

fn port_name(number: u16) -> String {
    match number {
        80 => "http".to_owned(),
        443 => "https".to_owned(),
        other => format!("tcp-{other}"),
    }
}

/// Fixed address of a service in one of its networks.
fn fixed_address(networks: &Value) -> Option<String> {
    let fixed = |network: &Value| network.get("ipv4_address").or_else(|| network.get("ipv6_address")).and_then(scalar);
    networks.as_object()?.values().find_map(fixed).filter(|text| text.parse::<IpAddr>().is_ok())
}

/// Labels, written as a map or as a list of `key=value`.
fn labels(labels: &Value) -> BTreeMap<String, String> {
    match labels {
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), scalar(value).unwrap_or_default())).collect()
        }
        Value::Array(items) => items
            .iter()
            .filter_map(scalar)
            .map(|item| match item.split_once('=') {
                Some((key, value)) => (key.to_owned(), value.to_owned()),
                None => (item, String::new()),
            })
            .collect(),
        _ => BTreeMap::new(),
    }
}

/// A text, or a number or truth value as text.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
name: shop
x-common: &common {labels: [team=a, flag]}
services:
  Web_Front:
    <<: *common
    image: nginx
    ports:
      - "8080:80"
      - "127.0.0.2:8443:443/tcp"
      - 9000
      - "5000-5010:5000-5010"
      - "53:53/udp"
      - {target: 6000, published: "6001", name: admin}
    healthcheck: {test: ["CMD", "true"]}
    deploy: {replicas: 3}
  db:
    expose: ["5432", 5433/tcp, "70000"]
    networks: {back: {ipv4_address: 172.16.0.9}}
    labels: {tier: data, weight: 3}
  cache:
    hostname: Redis
    expose: [6379]
  empty:
"#;

    #[test]
    fn services_become_services_and_workloads() {
        let plan = read(FILE, "192.0.2.1".parse().unwrap()).unwrap();
        assert_eq!(plan.workloads.keys().collect::<Vec<_>>(), ["cache", "db", "empty", "web-front"]);
        let seen = |name: &str| {
            let data = &plan.workloads[name].data;
            let hosts = data
                .addresses
                .iter()
                .map(|skipped| (skipped.host.clone(), skipped.ports.join(",")))
                .collect::<Vec<_>>();
            (hosts, data.ports.iter().map(|skipped| (skipped.name.clone(), skipped.port)).collect::<Vec<_>>())
        };
        let host = |host: &str, ports: &str| (host.to_owned(), ports.to_owned());
        let port = |name: &str, number| (name.to_owned(), number);
        assert_eq!(
            seen("web-front"),
            (
                vec![host("127.0.0.2", "https"), host("192.0.2.1", "http,admin")],
                vec![port("http", 8080), port("https", 8443), port("admin", 6001)],
            )
        );
        let offered: Vec<_> =
            plan.services["web-front"].ports.iter().map(|skipped| (skipped.name.as_str(), skipped.port)).collect();
        assert_eq!(offered, [("http", 80), ("https", 443), ("admin", 6000)]);
        assert_eq!(
            seen("db"),
            (vec![host("172.16.0.9", "tcp-5432,tcp-5433")], vec![port("tcp-5432", 5432), port("tcp-5433", 5433)])
        );
        assert_eq!(seen("cache").0, [host("redis", "tcp-6379")]);
        assert_eq!(seen("empty"), (vec![host("empty", "")], vec![]));
        let labels = |name: &str| plan.workloads[name].metadata.clone().into_iter().collect::<Vec<_>>();
        assert_eq!(labels("db"), [("tier".into(), "data".into()), ("weight".into(), "3".into())]);
        assert_eq!(labels("web-front"), [("flag".into(), String::new()), ("team".into(), "a".into())]);
        let mut places: Vec<_> = plan.skipped.iter().map(|skipped| skipped.place.as_str()).collect();
        places.sort_unstable();
        assert_eq!(
            places,
            [
                "services.Web_Front.deploy.replicas",
                "services.Web_Front.healthcheck",
                "services.Web_Front.ports[2]",
                "services.Web_Front.ports[3]",
                "services.Web_Front.ports[4]",
                "services.db.expose[2]",
            ]
        );
    }

    #[test]
    fn what_is_no_compose_file_is_an_error() {
        for bad in ["", "a: 1", "services: 3", "services: [a]", "{"] {
            assert!(read(bad, "127.0.0.1".parse().unwrap()).is_err(), "{bad:?}");
        }
        let bomb = format!("services:\n  a: &a {{labels: [{}]}}\n", "x,".repeat(10)) + "  b: [*a,*a]\n";
        assert!(read(&bomb, "127.0.0.1".parse().unwrap()).is_err());
    }
}
