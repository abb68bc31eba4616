//! Answers, in the form that Consul's clients read.

use mortise_api::catalog::{Endpoint, Health, ServiceEndpoints};
use mortise_plugin_catalog::proto::catalog::v1::{Service, ServicePort, Workload, WorkloadAddress, WorkloadPort};
use mortise_resource::pb::condition::State;
use serde_json::{Value, json};

use super::{answer_until, deploy, entries_until, index, report};
use crate::{
    catalog::endpoints::{service, workload},
    support::{Server, any, at, http::Answer, id, make_place, noted, resource},
};

fn node(address: &str) -> Value {
    json!({ "ID": "", "Node": address, "Address": address, "Datacenter": "dc1",
        "TaggedAddresses": { "lan": address, "wan": address }, "Meta": {}, "Partition": "default",
        "CreateIndex": 0, "ModifyIndex": 0 })
}

fn check(status: &str, output: &str) -> Value {
    json!({ "Node": "192.0.2.1", "CheckID": "service:web-1:up", "Name": "up", "Status": status, "Notes": "",
        "Output": output, "ServiceID": "web-1", "ServiceName": "web", "ServiceTags": ["v1", "eu"], "Type": "ttl",
        "Interval": "", "Timeout": "", "ExposedPort": 0, "PeerName": "", "Definition": {}, "Namespace": "default",
        "Partition": "default", "CreateIndex": 0, "ModifyIndex": 0 })
}

fn agent_service() -> Value {
    json!({ "ID": "web-1", "Service": "web", "Tags": ["v1", "eu"], "Address": "192.0.2.1", "TaggedAddresses": {},
        "Meta": { "tier": "front" }, "Port": 8080, "Weights": { "Passing": 1, "Warning": 1 },
        "EnableTagOverride": false, "Proxy": {}, "Connect": {}, "PeerName": "", "Namespace": "default",
        "Partition": "default", "CreateIndex": 0, "ModifyIndex": 0 })
}

#[tokio::test]
async fn a_service_is_told_in_consuls_form() {
    let server = Server::start().await;
    deploy(&server, "web", "192.0.2.1").await;
    let catalog = entries_until(&server, "/v1/catalog/service/web", 1).await;
    let entry = json!({ "ID": "", "Node": "192.0.2.1", "Address": "192.0.2.1", "Datacenter": "dc1",
        "TaggedAddresses": { "lan": "192.0.2.1", "wan": "192.0.2.1" }, "NodeMeta": {}, "ServiceKind": "",
        "ServiceID": "web-1", "ServiceName": "web", "ServiceTags": ["v1", "eu"], "ServiceAddress": "192.0.2.1",
        "ServiceTaggedAddresses": {}, "ServiceWeights": { "Passing": 1, "Warning": 1 },
        "ServiceMeta": { "tier": "front" }, "ServicePort": 8080, "ServiceSocketPath": "",
        "ServiceEnableTagOverride": false, "ServiceProxy": {}, "ServiceConnect": {}, "Namespace": "default",
        "Partition": "default", "CreateIndex": 0, "ModifyIndex": 0 });
    assert_eq!(catalog.ok(), json!([entry]));
    let health = server.fetch("/v1/health/service/web").await;
    assert_eq!(
        health.ok(),
        json!([{ "Node": node("192.0.2.1"), "Service": agent_service(), "Checks": [check("critical", "")] }])
    );
    assert!(index(&health) >= 1 && index(&catalog) >= 1);
    assert_eq!(server.fetch("/v1/health/checks/web").await.ok(), json!([check("critical", "")]));
    assert_eq!(server.fetch("/v1/health/node/192.0.2.1").await.ok(), json!([check("critical", "")]));
    assert_eq!(
        server.fetch("/v1/catalog/node/192.0.2.1").await.ok(),
        json!({ "Node": node("192.0.2.1"), "Services": { "web-1": agent_service() } })
    );
    assert_eq!(
        server.fetch("/v1/catalog/node-services/192.0.2.1").await.ok(),
        json!({ "Node": node("192.0.2.1"), "Services": [agent_service()] })
    );
    let head = server.ask("HEAD", "/v1/health/service/web").await_answer().await;
    assert_eq!((head.code(), head.body.as_str(), head.header("x-consul-index").is_empty()), (200, "", false));
}

#[tokio::test]
async fn a_service_falls_sick_and_recovers_with_the_texts_of_its_checks() {
    let server = Server::start().await;
    let web = deploy(&server, "web", "192.0.2.1").await;
    entries_until(&server, "/v1/health/service/web", 1).await;
    let passing = async || server.fetch("/v1/health/service/web?passing").await.ok().as_array().unwrap().len();
    for (state, reason, text, status, instances) in [
        (State::True, "", "all is well", "passing", 1),
        (State::True, "Warning", "it is slow", "warning", 0),
        (State::False, "Timeout", "no answer", "critical", 0),
        (State::True, "", "all is well again", "passing", 1),
    ] {
        report(&server, &web, state, reason, text).await;
        assert_eq!(server.fetch("/v1/health/checks/web").await.ok(), json!([check(status, text)]), "at once");
        assert_eq!(passing().await, instances, "{status}");
        for other in ["passing", "warning", "critical", "any"] {
            let found = server.fetch(&format!("/v1/health/state/{other}")).await.ok();
            let expected = usize::from(other == status || other == "any");
            assert_eq!(found.as_array().unwrap().len(), expected, "{status}: {other}");
        }
    }
}

#[tokio::test]
async fn services_and_nodes_are_lists_of_a_namespace() {
    let server = Server::start().await;
    make_place(&server, "default", "blue").await;
    deploy(&server, "web", "192.0.2.1").await;
    server.write(noted(workload("web-2", "192.0.2.2", 80), &[("tags", "v2")])).await.unwrap();
    server.write(service("api", "web-1")).await.unwrap();
    server.write(at(workload("hidden-1", "192.0.2.9", 80), "default", "blue")).await.unwrap();
    server.write(at(service("hidden", "hidden-"), "default", "blue")).await.unwrap();
    let all = json!({ "api": ["eu", "v1"], "web": ["eu", "v1", "v2"] });
    answer_until(&server, "/v1/catalog/services", |answer| answer.ok() == all).await;
    answer_until(&server, "/v1/catalog/services?ns=blue", |answer| answer.ok() == json!({ "hidden": [] })).await;
    let nodes = server.fetch("/v1/catalog/nodes").await.ok();
    assert_eq!(nodes, json!([node("192.0.2.1"), node("192.0.2.2")]));
    let services = server.fetch("/v1/catalog/node/192.0.2.1").await.ok()["Services"].clone();
    let names: Vec<_> = services.as_object().unwrap().values().map(|entry| entry["Service"].clone()).collect();
    assert_eq!(names, ["api", "web"], "one workload of two services");
    assert_eq!(server.fetch("/v1/catalog/node/192.0.2.77").await.ok(), Value::Null);
    for absent in ["/v1/health/service/none", "/v1/catalog/service/No_Name", "/v1/health/node/none"] {
        assert_eq!(server.fetch(absent).await.ok(), json!([]), "{absent}");
    }
    assert_eq!(server.fetch("/v1/catalog/service/WEB").await.ok().as_array().unwrap().len(), 2, "in any case");
}

#[tokio::test]
async fn tags_and_filters_choose_instances() {
    let server = Server::start().await;
    deploy(&server, "web", "192.0.2.1").await;
    server.write(noted(workload("web-2", "192.0.2.2", 80), &[("tags", "v2,eu")])).await.unwrap();
    entries_until(&server, "/v1/health/service/web", 2).await;
    let ids = |answer: &Answer| {
        let answer = answer.ok();
        let id = |entry: &Value| entry["ServiceID"].as_str().or(entry["Service"]["ID"].as_str()).unwrap().to_owned();
        answer.as_array().unwrap().iter().map(id).collect::<Vec<_>>()
    };
    for (path, expected) in [
        ("/v1/catalog/service/web?tag=eu", vec!["web-1", "web-2"]),
        ("/v1/catalog/service/web?tag=EU&tag=v2", vec!["web-2"]),
        ("/v1/health/service/web?tag=v1", vec!["web-1"]),
        ("/v1/health/service/web?tag=v3", vec![]),
        ("/v1/health/service/web?passing=1", vec!["web-2"]),
        ("/v1/health/service/web?node-meta=os:linux", vec![]),
        ("/v1/health/service/web?filter=Service.Port%20==%2080", vec!["web-2"]),
        ("/v1/health/service/web?filter=Service.Meta.tier%20==%20%22front%22", vec!["web-1"]),
        ("/v1/catalog/service/web?filter=%22v1%22%20in%20ServiceTags%20and%20ServicePort%20!=%2080", vec!["web-1"]),
        ("/v1/health/checks/web?filter=Status%20==%20critical", vec!["web-1"]),
    ] {
        assert_eq!(ids(&server.fetch(path).await), expected, "{path}");
    }
    let services = server.fetch("/v1/catalog/services?filter=v2%20in%20ServiceTags").await.ok();
    assert_eq!(services, json!({ "web": ["eu", "v2"] }));
    for (filter, part) in [
        ("Service.Nam%20==%20x", "selector \"Service.Nam\" is not valid"),
        ("Service.Service%20matches%20x", "\"matches\" is not supported here"),
        ("Service.Service", "an operator"),
    ] {
        let refused = server.fetch(&format!("/v1/health/service/web?filter={filter}")).await;
        assert_eq!((refused.code(), refused.header("content-type")), (400, "text/plain; charset=utf-8"));
        assert!(refused.body.contains(part), "{refused:?}");
    }
}

/// Endpoints that clients write have no workloads, and several ports, weights and zones.
#[tokio::test]
async fn endpoints_without_workloads_have_their_health_as_a_check() {
    let server = Server::start().await;
    let port = |name: &str, port| mortise_api::catalog::EndpointPort { name: name.into(), port, ..Default::default() };
    let endpoint = |address: &str, health: Health| Endpoint {
        workload: format!("db-{}", address.len()),
        address: address.into(),
        health: health.into(),
        weight: 7,
        zone: "rack-1".into(),
        ports: vec![port("sql", 5432), port("metrics", 9187)],
        labels: [("role".to_owned(), "primary".to_owned())].into_iter().collect(),
        ..Endpoint::default()
    };
    let written = ServiceEndpoints {
        endpoints: vec![endpoint("db.example.org", Health::Passing), endpoint("2001:db8::1", Health::Critical)],
        ..ServiceEndpoints::default()
    };
    server.set("db", &written).await;
    let health = server.fetch("/v1/health/service/db").await.ok();
    let entry = health.as_array().unwrap().iter().find(|entry| entry["Node"]["Node"] == "db.example.org").unwrap();
    assert_eq!(entry["Service"]["Weights"], json!({ "Passing": 7, "Warning": 7 }));
    assert_eq!(entry["Service"]["Locality"], json!({ "Region": "dc1", "Zone": "rack-1" }));
    assert_eq!((&entry["Service"]["Port"], &entry["Service"]["Meta"]), (&json!(5432), &json!({ "role": "primary" })));
    assert_eq!(
        entry["Service"]["Ports"],
        json!([{ "Name": "sql", "Port": 5432, "Default": true }, { "Name": "metrics", "Port": 9187, "Default": false }])
    );
    let states: Vec<_> = health.as_array().unwrap().iter().map(|entry| entry["Checks"][0]["Status"].clone()).collect();
    assert_eq!(states.len(), 2);
    assert!(states.contains(&json!("passing")) && states.contains(&json!("critical")), "{states:?}");
    let passing = server.fetch("/v1/health/service/db?passing").await.ok();
    assert_eq!(passing.as_array().unwrap().len(), 1);
    // A service without endpoints has no instances.
    let http = ServicePort { name: "http".into(), port: 80, ..ServicePort::default() };
    let data = Service { ports: vec![http], ..Service::default() };
    server.write(resource(id("catalog.v1.Service", "web"), Some(any("catalog.v1.Service", &data)))).await.unwrap();
    assert_eq!(server.fetch("/v1/health/service/web").await.ok(), json!([]));
}

/// 70 workloads of 16 addresses: more than the endpoints of a service have without a slice.
#[tokio::test]
async fn slices_are_parts_of_one_service_for_consuls_clients() {
    let server = Server::start().await;
    for number in 0..70 {
        let address = |last| WorkloadAddress { host: format!("10.0.{number}.{last}"), ports: Vec::new() };
        let data = Workload {
            addresses: (1..=16).map(address).collect(),
            ports: vec![WorkloadPort { name: "http".into(), port: 8080, protocol: 0, opaque: false }],
            ..Workload::default()
        };
        let workload = id("catalog.v1.Workload", &format!("web-{number:02}"));
        server.write(resource(workload, Some(any("catalog.v1.Workload", &data)))).await.unwrap();
    }
    server.write(service("web", "web-")).await.unwrap();
    entries_until(&server, "/v1/health/service/web?passing", 70 * 16).await;
    entries_until(&server, "/v1/catalog/nodes", 70 * 16).await;
    let one = server.fetch("/v1/health/service/web?filter=Node.Node%20==%20%2210.0.69.16%22").await.ok();
    assert_eq!(one[0]["Service"]["ID"], "web-69");
}

#[tokio::test]
async fn the_server_is_the_leader_of_its_datacenter() {
    let server = Server::start().await;
    assert_eq!(server.fetch("/v1/status/leader").await.ok(), json!(server.grpc.to_string()));
    assert_eq!(server.fetch("/v1/status/peers").await.ok(), json!([server.grpc.to_string()]));
    assert_eq!(server.fetch("/v1/catalog/datacenters").await.ok(), json!(["dc1"]));
    let own = server.fetch("/v1/agent/self").await.ok();
    assert_eq!((&own["Config"]["Datacenter"], &own["Config"]["Server"]), (&json!("dc1"), &json!(true)));
    let version = server.fetch("/v1/version").await.ok()["version"].clone();
    assert_eq!((&own["Config"]["Version"], own["Config"]["NodeName"] == ""), (&version, false));
}
