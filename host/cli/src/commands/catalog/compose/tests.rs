//! Compose files and the workloads that they become.

use std::fs;

use mortise_resource::grpc::catalog::health_check::Check;
use tempfile::TempDir;

use super::*;

fn env(name: &str) -> Option<String> {
    (name == "FROM_ENV").then(|| "7000".to_owned())
}

/// Reads a compose file in a folder with these files.
pub(super) fn read_in(files: &[(&str, &str)], text: &str, profiles: &[&str]) -> Result<LoadPlan, String> {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let path = folder.path().join("compose.yaml");
    let name = path.to_string_lossy();
    let profiles: Vec<_> = profiles.iter().map(|name| (*name).to_owned()).collect();
    let options = Options { address: "192.0.2.1".parse().unwrap(), profiles: &profiles, env: &env };
    let folder = format!("{}/", folder.path().display());
    match read(Source { name: &name, text }, &options) {
        Ok((plan, _)) => Ok(plan),
        Err(error) => Err(error.to_string().replace(&folder, "")),
    }
}

pub(super) fn plan(text: &str) -> LoadPlan {
    read_in(&[], text, &[]).unwrap()
}

/// Addresses with their ports, and ports, of a workload: `127.0.0.1=http http:8080`.
pub(super) fn seen(plan: &LoadPlan, name: &str) -> String {
    let data = &plan.workloads[name].data;
    let addresses = data.addresses.iter().map(|address| format!("{}={}", address.host, address.ports.join(",")));
    let ports = data.ports.iter().map(|port| format!("{}:{}", port.name, port.port));
    addresses.chain(ports).collect::<Vec<_>>().join(" ")
}

/// Ports of a service and its workloads: `http:80 > web`.
pub(super) fn offered(plan: &LoadPlan, name: &str) -> String {
    let service = &plan.services[name];
    let ports: Vec<_> = service.ports.iter().map(|port| format!("{}:{}", port.name, port.port)).collect();
    format!("{} > {}", ports.join(" "), service.workloads.iter().cloned().collect::<Vec<_>>().join(" "))
}

/// Lines and texts of what is left out.
pub(super) fn skipped(plan: &LoadPlan) -> Vec<String> {
    let shown =
        |remark: &super::super::plan::Remark| format!("{} {}: {}", remark.place.line, remark.place.path, remark.text);
    plan.skipped.iter().map(shown).collect()
}

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
      - "5000-5001:6001-6002"
      - "53:53/udp"
      - {target: 6000, published: "6001", name: admin, app_protocol: http}
    healthcheck: {test: ["CMD", "true"]}
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
    let plan = plan(FILE);
    assert_eq!(plan.workloads.keys().collect::<Vec<_>>(), ["cache", "db", "empty", "web-front"]);
    assert_eq!(
        seen(&plan, "web-front"),
        "127.0.0.2=https 192.0.2.1=http,tcp-6001,tcp-6002,admin http:8080 https:8443 tcp-6001:5000 tcp-6002:5001 \
         admin:6001"
    );
    assert_eq!(plan.workloads["web-front"].data.ports[4].protocol, 2);
    assert_eq!(offered(&plan, "web-front"), "http:80 https:443 tcp-6001:6001 tcp-6002:6002 admin:6000 > web-front");
    assert_eq!(seen(&plan, "db"), "172.16.0.9=tcp-5432,tcp-5433 tcp-5432:5432 tcp-5433:5433");
    assert_eq!(seen(&plan, "cache"), "redis=tcp-6379 tcp-6379:6379");
    assert_eq!(seen(&plan, "empty"), "empty=");
    let labels = |name: &str| plan.workloads[name].metadata.clone().into_iter().collect::<Vec<_>>();
    assert_eq!(labels("db"), [("tier".into(), "data".into()), ("weight".into(), "3".into())]);
    assert_eq!(labels("web-front"), [("flag".into(), String::new()), ("team".into(), "a".into())]);
}

#[test]
fn entries_that_are_left_out_have_their_lines() {
    let plan = plan(FILE);
    assert_eq!(
        skipped(&plan),
        [
            "13 services.Web_Front.ports[4]: only TCP is loaded",
            "11 services.Web_Front.ports[2]: it is published at a random number; publish it as \"8080:80\"",
            "15 services.Web_Front.healthcheck: the program \"true\" has no counterpart; give the workload a check by http, \
             tcp, grpc or ttl",
            "17 services.db.expose[2]: \"70000\" is neither a number from 1 to 65535 nor a range such as 8000-8010",
        ]
    );
    assert_eq!(plan.notes[0].text, "its name becomes \"web-front\"");
}

#[test]
fn a_port_may_be_published_several_times() {
    let plan = plan(
        "services:\n  web:\n    ports: ['8080:80', '127.0.0.2:8080:80', '8081:80', '8443:443', '8080:443', '8080:80']\n",
    );
    assert_eq!(seen(&plan, "web"), "127.0.0.2=http 192.0.2.1=http,https http:8080 https:8443");
    assert_eq!(seen(&plan, "web-8081"), "192.0.2.1=http http:8081");
    assert_eq!(offered(&plan, "web"), "http:80 https:443 > web web-8081");
    assert_eq!(skipped(&plan), ["3 services.web.ports[4]: 192.0.2.1 has the port 8080 for 80 already"]);
}

#[test]
fn ports_without_a_number_are_those_of_the_container() {
    let plan = plan("services:\n  web: {ports: ['80', '127.0.0.1::443', 5000-5001]}\n");
    assert_eq!(seen(&plan, "web"), "web=http,https,tcp-5000,tcp-5001 http:80 https:443 tcp-5000:5000 tcp-5001:5001");
    assert_eq!(skipped(&plan), [""; 0]);
}

#[test]
fn bounds_of_ports_are_kept() {
    let plan = plan("services:\n  web: {ports: ['1000-2000:1000-2000']}\n");
    assert_eq!(plan.workloads["web"].data.ports.len(), 64);
    assert_eq!(skipped(&plan), ["2 services.web.ports[0]: its service has 64 ports already"]);
}

#[test]
fn the_network_of_the_host_is_at_the_address() {
    let plan = plan(
        "services:\n  web: {network_mode: host, expose: [80], ports: ['8443:443']}\n  bare: {network_mode: host}\n  \
         alone: {network_mode: none}\n  side: {network_mode: 'service:web', expose: [9100]}\n",
    );
    assert_eq!(seen(&plan, "web"), "192.0.2.1=https,http https:443 http:80");
    assert_eq!(seen(&plan, "bare"), "192.0.2.1=");
    assert_eq!(seen(&plan, "side"), "web=tcp-9100 tcp-9100:9100");
    assert_eq!(skipped(&plan), ["4 services.alone: it has no network"]);
}

#[test]
fn replicas_have_their_own_numbers_or_names() {
    let plan = plan(
        "name: Shop\nservices:\n  web: {ports: ['8080-8082:80'], deploy: {replicas: 3}}\n  api: {expose: [80], scale: 2}\n  \
         one: {ports: ['90:90'], deploy: {replicas: 4}}\n  none: {deploy: {replicas: 0}}\n  \
         short: {ports: ['70-79:70'], deploy: {replicas: 2}}\n",
    );
    assert_eq!(offered(&plan, "web"), "http:80 > web-1 web-2 web-3");
    assert_eq!(seen(&plan, "web-3"), "192.0.2.1=http http:8082");
    assert_eq!(offered(&plan, "api"), "http:80 > api-1 api-2");
    assert_eq!(seen(&plan, "api-2"), "shop-api-2=http http:80");
    assert_eq!(offered(&plan, "one"), "tcp-90:90 > one");
    assert_eq!(plan.notes[0].text, "its 4 replicas are behind one published address; one workload is made");
    assert_eq!(offered(&plan, "none"), " > none");
    assert!(!plan.workloads.contains_key("none"));
    assert_eq!(seen(&plan, "short-1"), "shop-short-1=tcp-70 tcp-70:70");
    assert_eq!(
        skipped(&plan),
        ["7 services.short.ports[0]: it is published at one of 10 numbers; give as many replicas, or one number"]
    );
}

#[test]
fn names_that_are_no_dns_names_are_mapped_with_a_note() {
    let plan = plan(
        "services:\n  my_db: {expose: [1]}\n  my-db: {expose: [2]}\n  Cache: {container_name: my_cache, expose: [3]}\n  \
         q_1: {networks: {back: {aliases: [queue]}}, expose: [4]}\n",
    );
    assert_eq!(plan.workloads.keys().collect::<Vec<_>>(), ["cache", "my-db", "q-1"]);
    assert_eq!(
        (seen(&plan, "cache"), seen(&plan, "q-1")),
        ("cache=tcp-3 tcp-3:3".into(), "queue=tcp-4 tcp-4:4".into())
    );
    assert!(skipped(&plan)[0].starts_with("2 services.my_db: \"my_db\" becomes \"my-db\", as \"my-db\" of "));
    let notes: Vec<_> = plan.notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(notes, ["its name becomes \"cache\"", "its name becomes \"q-1\""]);
    let plan = self::plan("services:\n  my_db: {expose: [1]}\n");
    assert_eq!(
        plan.notes[1].text,
        "\"my_db\" is not a DNS name: clients are sent to \"my-db\"; give the container that alias"
    );
}

#[test]
fn health_checks_become_checks_of_the_port() {
    let plan = plan(
        "services:\n  web:\n    ports: ['127.0.0.2:8443:443', '8080:80', '8081:80']\n    healthcheck:\n      \
         test: curl -f http://localhost/health || exit 1\n      interval: 1m30s\n      timeout: 2m\n      retries: 5\n  \
         db:\n    expose: [5432]\n    healthcheck: {test: [CMD-SHELL, pg_isready -U $$USER]}\n  \
         off: {healthcheck: {test: [NONE]}}\n  idle: {healthcheck: {disable: true}}\n  \
         far: {expose: [1], healthcheck: {test: [CMD, nc, -z, localhost, '2']}}\n  \
         bad: {expose: [2], healthcheck: {test: [CMD, nc, -z, localhost, '2'], interval: soon}}\n",
    );
    let check = |name: &str| plan.workloads[name].data.checks[0].clone();
    let web = check("web");
    let Some(Check::Http(http)) = &web.check else { panic!("{web:?}") };
    assert_eq!((http.port.as_str(), http.path.as_str(), http.scheme.as_str()), ("http", "/health", "http"));
    assert_eq!((http.statuses[0].from, http.statuses[0].to), (200, 399));
    let seconds = |time: Option<prost_types::Duration>| time.unwrap().seconds;
    assert_eq!((seconds(web.interval), seconds(web.timeout), web.failing_after), (90, 30, 5));
    assert_eq!(plan.workloads["web"].data.addresses[0].host, "192.0.2.1", "the address with the port is asked");
    assert_eq!(plan.workloads["web-8081"].data.checks.len(), 1);
    let db = check("db");
    assert!(matches!(&db.check, Some(Check::Tcp(tcp)) if tcp.port == "tcp-5432"), "{db:?}");
    assert_eq!((seconds(db.interval), seconds(db.timeout), db.failing_after), (30, 30, 3));
    assert_eq!(plan.workloads["off"].data.checks.len() + plan.workloads["idle"].data.checks.len(), 0);
    assert_eq!(plan.notes[0].text, "its timeout of 2m becomes 30s: the server takes 10ms to 30s");
    assert_eq!(
        skipped(&plan),
        [
            "15 services.bad.healthcheck: \"soon\" is not a time such as 1m30s",
            "14 services.far.healthcheck: it asks port 2, which the service neither publishes nor exposes",
        ]
    );
    let grants = plan.grants();
    assert_eq!(grants["tcp"].iter().collect::<Vec<_>>(), ["db:5432"]);
    assert_eq!(grants["http"].iter().collect::<Vec<_>>(), ["http://192.0.2.1:8080", "http://192.0.2.1:8081"]);
}

#[test]
fn variables_come_from_the_environment_and_env() {
    let text = "services:\n  web:\n    image: '${MISSING:?not read}'\n    ports: ['${PORT:-1}:80', '${FROM_ENV}:443']\n    \
                labels: {a: $OTHER}\n";
    let plan = read_in(&[(".env", "PORT=8085\nFROM_ENV=1\n")], text, &[]).unwrap();
    assert_eq!(seen(&plan, "web"), "192.0.2.1=http,https http:8085 https:7000");
    assert_eq!(
        skipped(&plan),
        ["5 services.web.labels.a: the variable OTHER is not set; an empty text takes its place"]
    );
    let needed = "services:\n  web:\n    ports:\n      - '${PORT:?which port}:80'\n";
    assert_eq!(
        read_in(&[], needed, &[]).unwrap_err(),
        "compose.yaml:4: services.web.ports[0]: the variable PORT is missing: which port; set it in the environment or in \
         .env"
    );
    assert_eq!(read_in(&[(".env", "A=1\nB='x\n")], needed, &[]).unwrap_err(), ".env:2: the quote of B is not closed");
}

#[test]
fn profiles_are_chosen() {
    let text = "services:\n  web:\n  debug: {profiles: [debug, '${MORE:-tools}']}\n  other: {profiles: [other]}\n";
    let names = |profiles: &[&str]| {
        read_in(&[], text, profiles).map(|plan| plan.workloads.into_keys().collect::<Vec<_>>().join(" "))
    };
    assert_eq!(names(&[]).as_deref(), Ok("web"));
    assert_eq!(names(&["tools"]).as_deref(), Ok("debug web"));
    assert_eq!(names(&["*"]).as_deref(), Ok("debug other web"));
    assert_eq!(names(&["tool"]), Err("no service has the profile \"tool\"".to_owned()));
    assert_eq!(plan(text).notes[0].text, "it is not loaded without its profile: debug or tools; give --profile debug",);
}

#[test]
fn services_extend_others() {
    let base = "services:\n  base:\n    extends: root\n    ports: ['8080:80']\n    labels: [a=1, b=2]\n    \
                healthcheck: {test: [CMD, nc, -z, localhost, '80'], retries: 9}\n  root: {ports: ['8443:443']}\n";
    let text = "services:\n  web:\n    extends: {file: common/base.yaml, service: base}\n    ports: ['90:90']\n    \
                labels: {b: 3}\n    healthcheck: {retries: 2}\n  twin: {extends: web, container_name: twin-1, ports: ['91:90']}\n";
    let plan = read_in(&[("common/base.yaml", base)], text, &[]).unwrap();
    assert_eq!(seen(&plan, "web"), "192.0.2.1=https,http,tcp-90 https:8443 http:8080 tcp-90:90");
    assert_eq!(offered(&plan, "twin"), "https:443 http:80 tcp-90:90 > twin twin-91");
    let labels: Vec<_> = plan.workloads["web"].metadata.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(labels, ["a=1", "b=3"]);
    assert_eq!(plan.workloads["web"].data.checks[0].failing_after, 2);
}

#[test]
fn files_are_included_with_their_own_variables() {
    let sub = "services:\n  db: {ports: ['${PORT}:5432']}\n";
    let over = "services:\n  db: {labels: {tier: data}}\n";
    let text = "include:\n  - sub/db.yaml\n  - {path: [sub/more.yaml, sub/over.yaml], env_file: other.env}\nservices: {web: {}}\n";
    let files = [
        ("sub/db.yaml", sub),
        ("sub/.env", "PORT=5001\n"),
        ("sub/more.yaml", "services:\n  more: {ports: ['${PORT}:1']}\n"),
        ("sub/over.yaml", "services:\n  more: {labels: {tier: data}}\n"),
        ("other.env", "PORT=5002\n"),
        ("unused.yaml", over),
    ];
    let plan = read_in(&files, text, &[]).unwrap();
    assert_eq!(seen(&plan, "db"), "192.0.2.1=tcp-5432 tcp-5432:5001");
    assert_eq!(seen(&plan, "more"), "192.0.2.1=tcp-1 tcp-1:5002");
    assert_eq!(plan.workloads["more"].metadata["tier"], "data");
    assert_eq!(&*plan.workloads["db"].place.file, "sub/db.yaml");
}

/// Further files, a compose file, and its error.
type Case<'c> = (&'c [(&'c str, &'c str)], &'c str, &'c str);

#[test]
fn circles_and_files_outside_are_errors() {
    let cases: [Case<'_>; 9] = [
        (
            &[],
            "services:\n  a: {extends: b}\n  b: {extends: {service: a}}\n",
            "compose.yaml:3: services.b.extends: it goes in a circle: a extends b extends a",
        ),
        (
            &[("x.yaml", "include: [y.yaml]\n"), ("y.yaml", "include: [x.yaml]\n")],
            "include: [x.yaml]\n",
            "y.yaml:1: include[0]: it goes in a circle: compose.yaml includes x.yaml includes y.yaml includes x.yaml",
        ),
        (
            &[],
            "include: ['../x.yaml']\n",
            "compose.yaml:1: include[0]: cannot read ../x.yaml: No such file or directory (os error 2)",
        ),
        (
            &[],
            "include: [/etc/hostname]\n",
            "compose.yaml:1: include[0]: /etc/hostname is outside of the folder of the compose file; move it there",
        ),
        (&[("d/x", "")], "include: [d]\n", "compose.yaml:1: include[0]: d is not a regular file"),
        (
            &[],
            "services:\n  a: {extends: b}\n",
            "compose.yaml:2: services.a.extends: compose.yaml has no service \"b\"",
        ),
        (
            &[("x.yaml", "services: {a: {}}\n")],
            "include: [x.yaml]\nservices:\n  a: {}\n",
            "x.yaml:1: services.a: the service \"a\" is in compose.yaml:3: services.a already; rename one of them",
        ),
        (&[], "services:\n  a: 3\n", "compose.yaml:2: services.a: it is not a map"),
        (&[], "include: [3]\nservices: [a]\n", "compose.yaml:2: services: it is not a map"),
    ];
    for (files, text, error) in cases {
        let found = read_in(files, text, &[]).unwrap_err();
        assert!(found.ends_with(error) || found.replace("/private", "") == error, "{found}\n{error}");
    }
}

#[test]
fn nesting_and_copies_are_bounded() {
    let chain: String = (0..40).map(|n| format!("  s{n}: {{extends: s{}}}\n", n + 1)).collect();
    let error = read_in(&[], &format!("services:\n{chain}  s40:\n"), &[]).unwrap_err();
    assert!(error.ends_with("it is nested more than 16 levels deep"), "{error}");
    let files: Vec<(String, String)> =
        (0..120).map(|n| (format!("f{n}.yaml"), format!("services: {{s{n}: {{}}}}\n"))).collect();
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let includes: Vec<_> = (0..120).map(|n| format!("f{n}.yaml")).collect();
    let error = read_in(&files, &format!("include: [{}]\n", includes.join(", ")), &[]).unwrap_err();
    assert_eq!(error, "the files of the project are more than 100, or larger than 16777216 bytes");
    let labels: String = (0..20_000).map(|n| format!("l{n}: x,")).collect();
    let copies: String = (0..60).map(|n| format!("  c{n}: {{extends: base}}\n")).collect();
    let error = read_in(&[], &format!("services:\n  base: {{labels: {{{labels}}}}}\n{copies}"), &[]).unwrap_err();
    assert_eq!(error, "services take over more than 1000000 values from others");
}

#[test]
fn other_texts_are_errors() {
    for bad in ["", "a: 1", "services: 3", "services: [a]", "{"] {
        assert!(read_in(&[], bad, &[]).is_err(), "{bad:?}");
    }
}
