//! Rules of compose files at their edges: protocols, addresses, names of projects, bounds, and details of health
//! checks.

use mortise_resource::{
    grpc::catalog::health_check::Check,
    meta::{DELETION_TIMESTAMP, FINALIZERS},
};

use super::tests::{offered, plan, read_in, seen, skipped};

#[test]
fn protocols_and_names_of_ports_are_those_of_the_file() {
    let plan = plan(
        "services:\n  web:\n    ports:\n      - {target: 80, published: 80, app_protocol: grpc}\n      \
         - {target: 81, published: 81, app_protocol: h2c}\n      - {target: 82, published: 82, app_protocol: http2}\n      \
         - {target: 83, published: 83, protocol: udp}\n      - {target: 84, published: 84, protocol: tcp, name: Admin UI}\n      \
         - {target: 85, published: 85, name: admin-ui}\n      - {target: 86, published: 86, name: tcp-87}\n      - '87:87'\n",
    );
    let ports: Vec<_> =
        plan.workloads["web"].data.ports.iter().map(|port| (port.name.as_str(), port.protocol)).collect();
    assert_eq!(
        ports,
        [("http", 4), ("tcp-81", 3), ("tcp-82", 3), ("admin-ui", 0), ("tcp-85", 0), ("tcp-87", 0), ("port-87", 0)]
    );
    assert_eq!(skipped(&plan), ["7 services.web.ports[3]: only TCP is loaded"]);
}

#[test]
fn containers_are_at_a_fixed_address_or_their_first_dns_name() {
    let plan = plan(
        "services:\n  six: {expose: [80], networks: {back: {ipv6_address: '2001:db8::9'}}, healthcheck: {test: [CMD, nc, -z, \
         localhost, '80']}}\n  fixed: {expose: [80, 80], scale: 3, networks: {back: {ipv4_address: 172.16.0.9}}}\n  \
         named: {expose: [80], scale: 2, container_name: only}\n  '10': {expose: [80]}\n",
    );
    assert_eq!(seen(&plan, "six"), "2001:db8::9=http http:80");
    assert_eq!(plan.grants()["tcp"].iter().collect::<Vec<_>>(), ["[2001:db8::9]:80"]);
    assert_eq!(
        (seen(&plan, "fixed"), offered(&plan, "fixed")),
        ("172.16.0.9=http http:80".into(), "http:80 > fixed".into())
    );
    assert_eq!(seen(&plan, "named"), "only=http http:80");
    // A resolver would take it for an address.
    assert_eq!(seen(&plan, "10"), "container=http http:80");
    assert_eq!(
        skipped(&plan),
        [
            "3 services.fixed: only one of 3 replicas can have its fixed address or name",
            "4 services.named: only one of 2 replicas can have its fixed address or name",
        ]
    );
}

#[test]
fn replicas_are_named_after_the_project() {
    let text = "name: shop\nservices:\n  api: {expose: [80], scale: 2}\n";
    assert_eq!(seen(&plan(text), "api-2"), "shop-api-2=http http:80");
    let given = read_in(&[(".env", "COMPOSE_PROJECT_NAME=Given\n")], text, &[]).unwrap();
    assert_eq!(seen(&given, "api-2"), "given-api-2=http http:80");
    let many = plan("name: shop\nservices:\n  api: {expose: [80], scale: 300}\n");
    assert_eq!((many.workloads.len(), skipped(&many).len()), (256, 1));
    assert!(skipped(&many)[0].ends_with("only 256 of 300 replicas are loaded"), "{:?}", skipped(&many));
}

#[test]
fn publications_of_a_port_are_bounded() {
    let ports = |entry: &dyn Fn(usize) -> String, count| (1..=count).map(entry).collect::<Vec<_>>().join(", ");
    let addresses = ports(&|number| format!("'127.0.0.{number}:8080:80'"), 17);
    let found = plan(&format!("services:\n  web: {{ports: [{addresses}]}}\n"));
    assert_eq!(found.workloads["web"].data.addresses.len(), 16);
    assert_eq!(found.workloads["web-8080"].data.addresses.len(), 1);
    let numbers = ports(&|number| format!("'{}:80'", 8_000 + number), 257);
    let found = plan(&format!("services:\n  web: {{ports: [{numbers}]}}\n"));
    assert_eq!(found.workloads.len(), 256);
    assert_eq!(skipped(&found), ["2 services.web.ports[256]: its service has 256 workloads already"]);
    // One number for two ports of the container, at two addresses.
    let found = plan("services:\n  web: {ports: ['127.0.0.2:8080:80', '127.0.0.3:8080:81']}\n");
    assert_eq!(seen(&found, "web"), "127.0.0.2=http http:8080");
    assert_eq!(seen(&found, "web-8080"), "127.0.0.3=tcp-81 tcp-81:8080");
}

#[test]
fn details_of_health_checks_are_kept() {
    let plan = plan(
        "services:\n  web:\n    expose: [80]\n    container_name: box\n    healthcheck:\n      \
         test: [CMD, sh, -c, \"curl -fL -X POST -H 'X-A: b' -m 2 http://box/x#y\"]\n      retries: 500\n      interval: 100ms\n  \
         own: {expose: [80], healthcheck: {test: 'curl -f http://own', retries: 0}}\n  \
         host: {expose: [80], hostname: bee, healthcheck: {test: 'curl -f -m 0 http://bee'}}\n  \
         rpc: {expose: [50051], healthcheck: {test: [CMD, grpc_health_probe, '-addr=:50051', '-service=shop']}}\n",
    );
    assert_eq!(skipped(&plan), [""; 0]);
    let check = |name: &str| plan.workloads[name].data.checks[0].clone();
    let web = check("web");
    let Some(Check::Http(http)) = &web.check else { panic!("{web:?}") };
    assert_eq!((http.method.as_str(), http.path.as_str(), http.redirects), ("POST", "/x", 10));
    assert_eq!(http.headers, [("X-A".to_owned(), "b".to_owned())].into());
    let seconds = |time: Option<prost_types::Duration>| time.unwrap().seconds;
    assert_eq!((seconds(web.interval), seconds(web.timeout), web.failing_after), (1, 2, 100));
    assert_eq!(plan.notes[0].text, "its interval of 100ms becomes 1s: the server takes 1s to 86400s");
    assert_eq!((check("own").failing_after, seconds(check("host").timeout)), (1, 30));
    let rpc = check("rpc");
    assert!(matches!(&rpc.check, Some(Check::Grpc(grpc)) if grpc.service == "shop"), "{rpc:?}");
}

#[test]
fn labels_that_the_server_interprets_are_left_out() {
    let labels = format!("{{'{DELETION_TIMESTAMP}': a, '{FINALIZERS}': b, '': c, kept: d}}");
    let plan = plan(&format!("services:\n  web: {{labels: {labels}}}\n"));
    assert_eq!(plan.workloads["web"].metadata, [("kept".to_owned(), "d".to_owned())].into());
}

#[test]
fn env_files_are_those_of_the_project_directory() {
    let sub = "services:\n  db: {ports: ['${PORT}:5432']}\n";
    let files = [("sub/db.yaml", sub), ("sub/.env", "PORT=5001\n"), ("other/.env", "\u{feff}PORT=1\nPORT=5002\n")];
    let text = "include:\n  - {path: sub/db.yaml, project_directory: other}\n";
    assert_eq!(seen(&read_in(&files, text, &[]).unwrap(), "db"), "192.0.2.1=tcp-5432 tcp-5432:5002");
    let files = [(".env", "A='x\ny'\nB='\n")];
    assert_eq!(read_in(&files, "services:\n  a:\n", &[]).unwrap_err(), ".env:3: the quote of B is not closed");
}
