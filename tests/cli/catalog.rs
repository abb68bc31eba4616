//! `mortise catalog`: imported and skipped entries, the endpoints that a proxy sees, and results of checks.

use crate::support::{Server, controllers::read_until, decoded, transcript::Transcript};

const COMPOSE: &str = "\
services:
  Web:
    ports:
      - \"8081:80\"
      - \"53:53/udp\"
    labels: {team: shop}
  db:
    ports: [\"127.0.0.2:5433:5432\"]
    healthcheck: {test: [CMD, pg_isready]}
";

const HOSTS: &str = "127.0.0.1 localhost\n192.0.2.1 web1.lan www\n192.0.2.2 web2.lan www\nnowhere web3\n";

const CONSUL: &str = r#"[{"Node": "n1", "Address": "10.0.0.1", "ServiceID": "api-1", "ServiceName": "api", "ServicePort": 8080,
    "ServiceTags": ["v1"], "ServiceWeights": {"Passing": 2}}, {"Node": "n2"}]"#;

const HEALTH: &str = r#"[{"Node": {"Node": "n3", "Address": "10.0.0.3"}, "Service": {"ID": "api-3", "Service": "mail", "Port": 25},
    "Checks": [{"CheckID": "smtp", "Status": "critical"}]},
  {"Node": {"Node": "n4", "Address": "10.0.0.4"}, "Service": {"ID": "api-4", "Service": "mail", "Port": 25},
    "Checks": [{"CheckID": "smtp", "Status": "passing"}]}]"#;

const CHECKED: &str = "\
type: catalog.v1.Workload
name: web-2
data:
  addresses: [{host: 127.0.0.3}]
  zone: rack-2
  ports: [{name: http, port: 8081}]
  checks: [{name: alive, ttl: 600s}]
---
type: catalog.v1.Service
name: web
data:
  selector: {prefixes: [web]}
  ports: [{name: http, port: 80}]
";

async fn has(server: &Server, count: usize) {
    healthy(server, "web", count).await;
}

async fn healthy(server: &Server, service: &str, count: usize) {
    let id = crate::support::id("catalog.v1.ServiceEndpoints", service);
    let healthy = |stored: &mortise_resource::pb::Resource| {
        let found: mortise_plugin_catalog::proto::catalog::v1::ServiceEndpoints = decoded(stored);
        found.endpoints.iter().filter(|one| one.health == 1).count() == count
    };
    read_until(server, &id, healthy).await;
}

#[tokio::test]
async fn files_are_imported_and_streams_are_shown() {
    let server = Server::start().await;
    let mut t = Transcript::new("catalog", &server);
    t.file("compose.yaml", COMPOSE);
    t.file("hosts", HOSTS);
    t.file("dump.json", CONSUL);
    t.file("health.json", HEALTH);
    t.file("notes.txt", "hello\n");
    t.file("checked.yaml", CHECKED);
    t.works(&["catalog", "load", "compose.yaml", "--dry-run"]).await;
    t.works(&["catalog", "load", "compose.yaml"]).await;
    t.works(&["catalog", "load", "compose.yaml"]).await;
    t.say("No server is asked.");
    t.works(&["catalog", "load", "compose.yaml", "-o", "yaml", "--grpc-addr", "127.0.0.1:1"]).await;
    t.works(&["catalog", "load", "hosts"]).await;
    t.works(&["catalog", "load", "dump.json"]).await;
    t.works(&["catalog", "load", "health.json"]).await;
    t.fails(2, &["catalog", "load", "compose.yaml", "--strict"]).await;
    t.fails(2, &["catalog", "load", "notes.txt"]).await;
    t.fails(2, &["catalog", "load", "notes.txt", "--format", "consul"]).await;
    t.fails(2, &["catalog", "load", "missing.yaml"]).await;

    has(&server, 1).await;
    t.works(&["catalog", "watch", "web", "--once", "-o", "json"]).await;
    t.fails(1, &["catalog", "watch", "absent", "--once", "-o", "json"]).await;
    t.fails(1, &["catalog", "watch", "absent", "--port", "443", "--once", "-o", "json"]).await;
    t.fails(1, &["catalog", "watch", "we b", "--once"]).await;

    t.works(&["apply", "-f", "checked.yaml"]).await;
    t.works(&["catalog", "report", "web-2", "alive", "--passing"]).await;
    has(&server, 2).await;
    t.works(&["catalog", "watch", "web", "--once", "-o", "json"]).await;
    t.works(&["catalog", "report", "web-2", "alive", "--failing", "-m", "out of memory"]).await;
    has(&server, 1).await;
    // The check of db is not granted, and one of mail is critical.
    for (name, count) in [("api", 1), ("db", 0), ("mail", 1), ("web1-lan", 1), ("web2-lan", 1), ("www", 2)] {
        healthy(&server, name, count).await;
    }
    t.works(&["catalog", "list"]).await;
    t.works(&["catalog", "list", "-A", "-o", "json"]).await;
    t.works(&["catalog", "list", "--namespace", "empty"]).await;
    t.works(&["catalog", "top", "--once", "--interval", "100ms", "--rows", "2"]).await;
    t.fails(2, &["catalog", "top", "--rows", "0"]).await;
    t.fails(2, &["catalog", "report", "web-2", "other", "--passing"]).await;
    t.fails(2, &["catalog", "report", "web", "alive", "--passing"]).await;
    t.fails(1, &["catalog", "report", "absent", "alive", "--passing"]).await;
    t.fails(2, &["catalog", "report", "web-2", "alive"]).await;
    t.finish();
}

#[tokio::test]
async fn a_list_of_all_namespaces_has_each_of_them() {
    let server = Server::start().await;
    let t = Transcript::at("unused", &server.grpc.to_string());
    t.file("blue.yaml", "type: tenancy.v2beta1.Namespace\nname: blue\ndata: {}\n");
    t.file("web.yaml", "type: catalog.v1.Service\nname: web\ndata: {ports: [{name: http, port: 80}]}\n");
    for args in
        [&["apply", "-f", "blue.yaml"][..], &["apply", "-f", "web.yaml"], &["apply", "-f", "web.yaml", "-n", "blue"]]
    {
        let ran = t.command(args).output().await.unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }
    for (args, wanted) in [(&["-A"][..], vec!["blue", "default"]), (&["-n", "blue"], vec!["blue"])] {
        let all = [&["catalog", "list", "-o", "json"], args].concat();
        let ran = t.command(&all).output().await.unwrap();
        let text = String::from_utf8(ran.stdout).unwrap();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        let listed = found.as_array().unwrap().iter();
        let mut namespaces: Vec<_> = listed.map(|one| one["namespace"].as_str().unwrap()).collect();
        namespaces.sort_unstable();
        assert_eq!(namespaces, wanted, "{text}");
    }
}
