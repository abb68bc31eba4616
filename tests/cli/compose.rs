//! Compose files of `mortise catalog load`: their errors, and files that are followed.

use mortise_plugin_catalog::proto::catalog::v1::Workload;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::timeout,
};

use crate::support::{
    PATIENCE, Server, Setup, controllers::read_until, decoded, id, transcript::Transcript, until_gone,
};

const LEFT_OUT: &str = "\
services:
  web:
    ports:
      - [80]
      - {target: many, published: 1}
      - \"8000-8010:80\"
      - \"80\"
      - \"a:80\"
      - \"nowhere:8080:80\"
      - \"53:53/udp\"
      - \"80-81:80-82\"
      - \"8080:80\"
    healthcheck: curl
  bad_time: {healthcheck: {test: curl http://localhost, interval: soon}}
  bad_retries: {healthcheck: {test: curl http://localhost, retries: often}}
  two_commands: {healthcheck: {test: true; false}}
  program: {healthcheck: {test: [CMD, /bin/healthy]}}
  option: {healthcheck: {test: [CMD, curl, --data, x]}}
  url: {healthcheck: {test: [CMD, curl, -f]}}
  host: {healthcheck: {test: [CMD, curl, 'http://db']}}
  port: {healthcheck: {test: [CMD, curl, 'http://localhost:99999']}}
  unset: {labels: {a: $UNSET}}
  many: {deploy: {replicas: many}}
  outage: {network_mode: none}
";

#[tokio::test]
async fn compose_files_that_cannot_be_loaded() {
    let mut t = Transcript::at("errors_compose", "127.0.0.1:1");
    t.file("compose.yaml", LEFT_OUT);
    t.say("Nothing here asks a server.");
    t.fails(2, &["catalog", "load", "compose.yaml", "--strict", "-o", "yaml"]).await;
    t.file("a/other.yaml", "services: {other: {}}\n");
    t.file("a/circle.yaml", "include: [circle.yaml]\n");
    t.file("a/folder/x", "");
    let deep: String = (0..20).map(|n| format!("  s{n}: {{extends: s{}}}\n", n + 1)).collect();
    let labels: String = (0..20_000).map(|n| format!("l{n}: x, ")).collect();
    let copies: String = (0..60).map(|n| format!("  c{n}: {{extends: base}}\n")).collect();
    for (name, text) in [
        ("none.yaml", "name: shop\n".to_owned()),
        ("form.yaml", "services:\n  web: {labels: {a: '${'}}\n".to_owned()),
        ("required.yaml", "services:\n  web: {labels: {a: '${UNSET:?give it}'}}\n".to_owned()),
        ("depth.yaml", format!("services:\n  web: {{labels: {{a: '{}{}'}}}}\n", "${X:-".repeat(20), "}".repeat(20))),
        ("length.yaml", format!("services:\n  web: {{labels: {{a: '{}'}}}}\n", "x".repeat(70_000))),
        ("missing.yaml", "include: [nothing.yaml]\n".to_owned()),
        ("outside.yaml", "include: [../compose.yaml]\n".to_owned()),
        ("pipe.yaml", "include: [folder]\n".to_owned()),
        ("large.yaml", "include: [large.txt]\n".to_owned()),
        ("circle.yaml", "include: [circle.yaml]\n".to_owned()),
        ("nested.yaml", format!("services:\n{deep}  s20:\n")),
        ("extends.yaml", "services:\n  web: {extends: {file: other.yaml, service: web}}\n".to_owned()),
        ("twice.yaml", "include: [other.yaml]\nservices: {other: {}}\n".to_owned()),
        ("copied.yaml", format!("services:\n  base: {{labels: {{{labels}}}}}\n{copies}")),
        ("list.yaml", "services: [web]\n".to_owned()),
    ] {
        t.file(&format!("a/{name}"), text);
        if name == "large.yaml" {
            t.file("a/large.txt", " ".repeat((16 << 20) + 1));
        }
        t.fails(2, &["catalog", "load", &format!("a/{name}"), "--format", "compose", "-o", "yaml"]).await;
    }
    t.fails(2, &["catalog", "load", "compose.yaml", "--profile", "debug", "-o", "yaml"]).await;
    let many: String = (0..10_001).map(|n| format!("V{n}=\n")).collect();
    for text in ["A=1\nno name\n", "A='open\n", &many] {
        t.file(".env", text);
        t.fails(2, &["catalog", "load", "compose.yaml", "-o", "yaml"]).await;
    }
    t.finish();
}

/// Reads until a text has come.
async fn until_text(stream: &mut (impl AsyncRead + Unpin), text: &str) {
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    while !seen.contains(text) {
        let read = timeout(PATIENCE, stream.read(&mut buffer)).await.expect("in time").unwrap();
        assert!(read > 0, "ended: {seen}");
        seen.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
}

const FOLLOWED: &str = "\
services:
  web: {ports: ['8081:80']}
  db: {ports: ['5433:5432']}
";

#[tokio::test]
async fn followed_files_are_planned_first() {
    let server = Server::start().await;
    let mut t = Transcript::new("catalog_follow", &server);
    t.file("compose.yaml", FOLLOWED);
    t.works(&["catalog", "load", "compose.yaml", "--follow", "--dry-run", "--source", "shop"]).await;
    t.fails(2, &["catalog", "load", "compose.yaml", "--follow", "--source", "shop"]).await;
    t.fails(2, &["catalog", "load", "-", "--follow"]).await;
    t.fails(2, &["catalog", "load", "compose.yaml", "--follow", "--source", "my shop"]).await;
    t.fails(2, &["catalog", "load", "compose.yaml", "--source", "shop"]).await;
    t.say("The plan wrote nothing.");
    t.works(&["get", "workloads"]).await;

    t.works(&["catalog", "load", "compose.yaml"]).await;
    t.works(&["label", "catalog.v1.Service/db", "catalog-source=other"]).await;
    t.fails(1, &["catalog", "load", "compose.yaml", "--follow", "--yes", "--source", "shop"]).await;
    t.finish();
}

#[tokio::test]
async fn a_followed_file_and_its_resources_stay_the_same() {
    let server = Server::start().await;
    let t = Transcript::at("unused", &server.grpc.to_string());
    t.file("hosts", "192.0.2.9 own\n");
    let own = t.command(&["catalog", "load", "hosts"]).output().await.unwrap();
    assert!(own.status.success(), "{own:?}");
    t.file("more.yaml", "services: {more: {ports: ['8090:90']}}\n");
    t.file(
        "compose.yaml",
        "include: [more.yaml]\nservices:\n  web: {ports: ['${PORT:-8081}:80']}\n  db: {ports: ['5433:5432']}\n",
    );
    let follow = ["catalog", "load", "compose.yaml", "--follow", "--yes", "--source", "shop"];
    let mut child = t.command(&follow).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut err = child.stderr.take().unwrap();
    until_text(&mut out, "following compose.yaml as the source shop").await;
    let workload = |name: &str| id("catalog.v1.Workload", name);
    let has_port = |port: u32| {
        move |stored: &mortise_resource::pb::Resource| {
            decoded::<Workload>(stored).ports.iter().any(|one| one.port == port)
        }
    };
    read_until(&server, &workload("web"), has_port(8081)).await;

    // A variable of .env, which is made later and then changed, and an included file.
    for port in [8082, 8083] {
        t.file(".env", format!("PORT={port}\n"));
        read_until(&server, &workload("web"), has_port(port)).await;
    }
    t.file("more.yaml", "services: {more: {ports: ['8091:90']}}\n");
    read_until(&server, &workload("more"), has_port(8091)).await;

    // A fault changes nothing; the next state deletes what it lacks, and nothing else.
    t.file("compose.yaml", "services: [\n");
    until_text(&mut err, "compose.yaml is not a compose file").await;
    read_until(&server, &workload("db"), has_port(5433)).await;
    t.file("compose.yaml", "services:\n  web: {ports: ['${PORT}:80']}\n  new: {ports: ['8095:80']}\n");
    until_text(&mut out, "/db pruned (dry run)").await;
    for kind in ["catalog.v1.Workload", "catalog.v1.Service"] {
        until_gone(&server, &id(kind, "db")).await;
        until_gone(&server, &id(kind, "more")).await;
    }
    read_until(&server, &workload("new"), has_port(8095)).await;
    read_until(&server, &workload("own"), |_| true).await;
    child.kill().await.unwrap();
}

/// A plan does not know the quotas, so a write fails behind it.
#[tokio::test]
async fn a_write_that_fails_deletes_nothing() {
    let server = Setup::new().env("MORTISE_QUOTAS_RESOURCES", 2).start().await;
    let t = Transcript::at("unused", &server.grpc.to_string());
    t.file("compose.yaml", "services:\n  web: {ports: ['8081:80']}\n  db: {ports: ['5433:5432']}\n");
    let follow = ["catalog", "load", "compose.yaml", "--follow", "--yes", "--source", "shop"];
    let mut child = t.command(&follow).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut err = child.stderr.take().unwrap();
    until_text(&mut out, "following compose.yaml as the source shop").await;
    let (db, new) = (id("catalog.v1.Workload", "db"), id("catalog.v1.Workload", "new"));
    read_until(&server, &db, |_| true).await;

    // The second attempt, of a file that differs in a comment, begins behind the end of the first.
    for attempt in ["first", "second"] {
        let services = "services:\n  web: {ports: ['8081:80']}\n  new: {ports: ['8095:80']}\n";
        t.file("compose.yaml", format!("# {attempt}\n{services}"));
        until_text(&mut err, "nothing was deleted, since not everything was written").await;
    }
    read_until(&server, &db, |_| true).await;
    until_gone(&server, &new).await;
    // A later state that can be written deletes what it lacks.
    t.file("compose.yaml", "services:\n  web: {ports: ['8081:80']}\n");
    until_gone(&server, &db).await;
    child.kill().await.unwrap();
}

#[tokio::test]
async fn labels_alone_are_a_change() {
    let server = Server::start().await;
    let t = Transcript::at("unused", &server.grpc.to_string());
    let apply = async |label: &str| {
        let text =
            format!("type: demo.v2.Artist\nname: korn\nmeta: {{labels: {{env: {label}}}}}\ndata: {{name: Korn}}\n");
        t.file("artist.yaml", text);
        let ran = t.command(&["apply", "-f", "artist.yaml"]).output().await.unwrap();
        String::from_utf8(ran.stdout).unwrap()
    };
    assert_eq!(apply("dev").await, "demo.v2.Artist/korn created\n");
    assert_eq!(apply("prod").await, "demo.v2.Artist/korn updated\n");
    assert_eq!(apply("prod").await, "demo.v2.Artist/korn unchanged\n");
    let label =
        |stored: &mortise_resource::pb::Resource| stored.meta.as_ref().is_some_and(|meta| meta.labels["env"] == "prod");
    read_until(&server, &id("demo.v2.Artist", "korn"), label).await;
}
