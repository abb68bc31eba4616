//! The bundled plugin `routes`, with a real nginx: requests follow Routes as soon as nginx has reloaded. Prints SKIPPED
//! without nginx.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use crate::support::{
    eventually, is_gone, make_place,
    nginx::{Edge, Nginx, named, route, upstream},
    tenancy, until_gone,
};
use hickory_proto::{
    op::{Message, MessageType, OpCode, ResponseCode},
    rr::{RData, Record, RecordType},
};
use mortise_plugin_routes::proto::edge::v1::{Route, Upstream};
use mortise_resource::pb;
use tokio::net::UdpSocket;
use tonic::Code;
use tonic_types::StatusExt as _;

#[tokio::test]
async fn requests_follow_a_route_from_its_creation_to_its_end() {
    let edge = Edge::start().await;
    let Some(nginx) = Nginx::start(&edge).await else { return };
    let (a, b) = (upstream("A").await, upstream("B").await);
    assert_eq!(edge.get("www.example.org", "/").await.0, 404);

    let (id, said) = edge.apply("web", &route("www.example.org", "", &[(a, 0)])).await;
    assert_eq!(
        (said.r#type.as_str(), said.state(), said.reason.as_str()),
        ("Applied", pb::condition::State::True, "Written")
    );
    assert!(said.message.contains("default.default.web.conf"), "{}", said.message);
    assert_eq!(edge.names(), ["default.default.web.conf"]);
    assert_eq!(edge.get("www.example.org", "/").await.0, 404, "nginx has not been told");
    nginx.reload().await;
    edge.answers("www.example.org", "/some%20where?x=1", 200, "I am A\nGET /some%20where?x=1 HTTP/1.1\r\n").await;
    let (_, seen) = edge.get("www.example.org", "/").await;
    for header in ["Host: www.example.org\r\n", "X-Forwarded-For: 127.0.0.1\r\n", "X-Forwarded-Proto: http\r\n"] {
        assert!(seen.contains(header), "{seen}");
    }
    assert_eq!(edge.get("other.example.org", "/").await.0, 404);

    edge.apply("web", &route("www.example.org", "/", &[(b, 1)])).await;
    nginx.reload().await;
    edge.answers("www.example.org", "/", 200, "I am B").await;

    edge.apply("web", &route("moved.example.org", "/", &[(b, 1)])).await;
    nginx.reload().await;
    edge.answers("www.example.org", "/", 404, "").await;
    edge.answers("moved.example.org", "/", 200, "I am B").await;

    edge.delete(&id).await;
    assert_eq!(edge.names(), [""; 0]);
    nginx.reload().await;
    edge.answers("moved.example.org", "/", 404, "").await;
}

#[tokio::test]
async fn weights_share_requests_out() {
    let edge = Edge::start().await;
    let Some(nginx) = Nginx::start(&edge).await else { return };
    let (a, b) = (upstream("A").await, upstream("B").await);
    edge.apply("web", &route("www.example.org", "/", &[(a, 3), (b, 1)])).await;
    nginx.reload().await;
    edge.answers("www.example.org", "/", 200, "I am").await;
    let mut first = 0;
    for _ in 0..80 {
        first += u32::from(edge.get("www.example.org", "/").await.1.contains("I am A"));
    }
    // 60 requests, but each worker counts separately.
    assert!((52..=68).contains(&first), "{first} of 80");
}

/// A DNS server that knows `app.example` alone, at 127.0.0.1.
async fn resolver() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 1_024];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let query = Message::from_vec(&buffer[..length]).unwrap();
            let mut reply = Message::new(query.metadata.id, MessageType::Response, OpCode::Query);
            let asked = &query.queries[0];
            reply.add_queries([asked.clone()]);
            match asked.name().to_ascii().as_str() {
                "app.example." | "app.example" if asked.query_type() == RecordType::A => {
                    let data = RData::A(Ipv4Addr::LOCALHOST.into());
                    reply.add_answers([Record::from_rdata(asked.name().clone(), 60, data)]);
                }
                "app.example." | "app.example" => {}
                _ => reply.metadata.response_code = ResponseCode::NXDomain,
            }
            socket.send_to(&reply.to_vec().unwrap(), from).await.unwrap();
        }
    });
    address
}

/// Without the resolver one name that does not resolve makes nginx refuse every file.
#[tokio::test]
async fn names_are_looked_up_by_the_resolver_and_a_wrong_one_breaks_its_own_route_alone() {
    let dns = resolver().await;
    let edge = Edge::configured(|toml| toml.replace("listen = ", &format!("resolver = \"{dns}\"\nlisten = "))).await;
    let Some(nginx) = Nginx::start(&edge).await else { return };
    let (a, b) = (upstream("A").await, upstream("B").await);
    let by_name = |hostname: &str, names: &[String]| {
        let upstreams = names.iter().map(|name| Upstream { address: name.clone(), weight: 1 });
        Route { upstreams: upstreams.collect(), ..route(hostname, "/", &[]) }
    };
    edge.apply("gone-1", &by_name("gone.example.org", &["gone.example:80".into()])).await;
    let both = [format!("app.example:{}", a.port()), b.to_string()];
    edge.apply("app", &by_name("www.example.org", &both)).await;
    nginx.reload().await;
    let mut seen = std::collections::BTreeSet::new();
    eventually("both upstreams answer", async || {
        let (code, body) = edge.get("www.example.org", "/").await;
        assert_eq!(code, 200, "{body}");
        seen.extend(["I am A", "I am B"].into_iter().filter(|text| body.contains(text)));
        seen.len() == 2
    })
    .await;
    edge.answers("gone.example.org", "/", 502, "").await;
}

#[tokio::test]
async fn routes_share_a_hostname_by_path_and_age() {
    let edge = Edge::start().await;
    let Some(nginx) = Nginx::start(&edge).await else { return };
    make_place(&edge.server, "default", "team").await;
    let (a, b, c) = (upstream("A").await, upstream("B").await, upstream("C").await);
    let (oldest, _) = edge.apply("site", &route("www.example.org", "/site", &[(a, 1)])).await;
    let (api, _) = edge.apply("api", &route("www.example.org", "/api", &[(b, 1)])).await;
    let mut elsewhere = named("inner", &route("www.example.org", "/api/inner", &[(c, 1)]));
    elsewhere.id.as_mut().unwrap().tenancy = Some(tenancy("default", "team"));
    edge.server.write(elsewhere).await.unwrap();
    eventually("the third file is there", async || edge.names().len() == 3).await;
    eventually("the oldest Route names it", async || {
        let text = std::fs::read_to_string(edge.files().join("default.default.site.conf")).unwrap();
        text.contains("mortise_default_team_inner")
    })
    .await;
    let (_, said) = edge.apply("late", &route("www.example.org", "/api", &[(c, 1)])).await;
    assert_eq!((said.state(), said.reason.as_str()), (pb::condition::State::False, "Conflict"));
    assert_eq!(said.resource.unwrap().name, "api");
    assert!(!edge.names().iter().any(|name| name.contains("late")));

    nginx.reload().await;
    edge.answers("www.example.org", "/api/inner/x", 200, "I am C").await;
    let asked = [
        ("/site", 200, "I am A"),
        ("/site/x", 200, "I am A"),
        ("/sites", 404, ""),
        ("/api", 200, "I am B"),
        ("/api/", 200, "I am B"),
        ("/api/innermost", 200, "I am B"),
        ("/", 404, ""),
    ];
    for (path, code, body) in asked {
        let found = edge.get("www.example.org", path).await;
        assert!(found.0 == code && found.1.contains(body), "{path}: {found:?}");
    }

    edge.delete(&oldest).await;
    nginx.reload().await;
    edge.answers("www.example.org", "/site", 404, "").await;
    assert!(edge.get("www.example.org", "/api").await.1.contains("I am B"), "the next has the server block");
    edge.delete(&api).await;
    eventually("the late one's file is there", async || {
        edge.names().iter().any(|name| name == "default.default.late.conf")
    })
    .await;
    nginx.reload().await;
    edge.answers("www.example.org", "/api", 200, "I am C").await;
}

/// nginx accepts the extreme values that the rules allow.
#[tokio::test]
async fn nginx_takes_whatever_the_rules_let_through() {
    let edge = Edge::start().await;
    let Some(nginx) = Nginx::start(&edge).await else { return };
    let (a, b) = (upstream("A").await, upstream("B").await);
    let label = "x".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "y".repeat(61));
    let path = format!("/{}", "~".repeat(1023));
    edge.apply(&"n".repeat(63), &route(&longest, &path, &[(a, 1000)])).await;
    edge.apply("wild", &route("*.example.org", "/-._~/...", &[(a, 1)])).await;
    edge.apply("any", &route("_", "/", &[(b, 1)])).await;
    edge.apply("xn", &route("xn--bcher-kva.example", "/", &[(a, 1)])).await;
    let mut many = route("many.example", "/", &[]);
    let address = |number: usize| match number {
        0 => "[::1]:65535".to_owned(),
        1 => "localhost:1".to_owned(),
        other => format!("127.0.0.{other}:80"),
    };
    many.upstreams = (0..64).map(|number| Upstream { address: address(number), weight: 1 }).collect();
    edge.apply("many", &many).await;
    nginx.reload().await;
    edge.answers(&longest, &path, 200, "I am A").await;
    edge.answers("a.b.example.org", "/-._~/.../x", 200, "I am A").await;
    edge.answers("nobody.example", "/", 200, "I am B").await;
    assert_eq!(edge.get("a.example.org", "/").await.0, 404);
    assert!(!nginx.errors().contains("[warn]") && !nginx.errors().contains("[emerg]"), "{}", nginx.errors());
}

#[tokio::test]
async fn possible_injections_are_refused() {
    let edge = Edge::start().await;
    let a = "127.0.0.1:80".parse().unwrap();
    let evil = ["x;", "x} server { listen 81; }", "x\n}", "$host", "\"x\"", "x y", "x\\"];
    for evil in evil {
        let mut by_address = route("www.example.org", "/", &[(a, 1)]);
        by_address.upstreams[0].address = format!("{evil}:80");
        let routes = [
            (route(evil, "/", &[(a, 1)]), "data.hostname"),
            (route("www.example.org", &format!("/{evil}"), &[(a, 1)]), "data.path_prefix"),
            (by_address, "data.upstreams[0].address"),
        ];
        for (route, place) in routes {
            let status = edge.server.write(named("web", &route)).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{evil:?}: {status:?}");
            let violations = status.get_details_bad_request().unwrap().field_violations;
            assert_eq!(violations.iter().map(|one| one.field.as_str()).collect::<Vec<_>>(), [place], "{evil:?}");
        }
    }
    assert_eq!(edge.names(), [""; 0]);
}

/// A file's inode, which changes when the file is replaced.
fn inode(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).unwrap().ino()
}

#[tokio::test]
async fn a_restart_brings_back_what_is_missing_and_touches_nothing_else() {
    let edge = Edge::start().await;
    let a = "127.0.0.1:80".parse().unwrap();
    edge.apply("kept", &route("www.example.org", "/", &[(a, 1)])).await;
    let (taken, _) = edge.apply("taken", &route("www.example.org", "/taken", &[(a, 1)])).await;
    let [kept, lost] = ["kept", "taken"].map(|name| edge.files().join(format!("default.default.{name}.conf")));
    let before = (inode(&kept), edge.server.read(&taken).await.unwrap().version);
    let edge = edge
        .restart(|toml| {
            std::fs::remove_file(&lost).unwrap();
            toml
        })
        .await;
    eventually("the file is back", async || lost.exists()).await;
    assert_eq!((inode(&kept), edge.server.read(&taken).await.unwrap().version), before);
}

#[tokio::test]
async fn a_route_that_is_deleted_while_the_plugin_is_away_goes_when_it_is_back() {
    let edge = Edge::start().await;
    let (id, _) = edge.apply("web", &route("www.example.org", "/", &[("127.0.0.1:80".parse().unwrap(), 1)])).await;
    let edge = edge.restart(|toml| toml.replace("bundled = [\"routes\"]", "bundled = []")).await;
    edge.server.delete(&id, "").await.unwrap();
    assert!(!is_gone(&edge.server, &id).await && edge.names().len() == 1, "the finalizer holds it");
    let edge = edge.restart(|toml| toml.replace("bundled = []", "bundled = [\"routes\"]")).await;
    until_gone(&edge.server, &id).await;
    assert_eq!(edge.names(), [""; 0]);
}

#[tokio::test]
async fn without_a_grant_the_status_says_what_to_add() {
    let edge = Edge::configured(|toml| toml.replace("write = true", "write = false")).await;
    let route = route("www.example.org", "/", &[("127.0.0.1:80".parse().unwrap(), 1)]);
    let (_, said) = edge.apply("web", &route).await;
    assert_eq!((said.state(), said.reason.as_str()), (pb::condition::State::False, "NotGranted"));
    assert!(said.message.contains("plugin.routes.grants.directories.nginx.write = true"), "{}", said.message);

    let edge = Edge::configured(|toml| toml.replace("[plugin.routes.grants.directories]\nnginx", "#")).await;
    let (id, said) = edge.apply("web", &route).await;
    assert_eq!((said.state(), said.reason.as_str()), (pb::condition::State::False, "NotGranted"));
    assert!(said.message.contains("plugin.routes.grants.directories.nginx = {"), "{}", said.message);
    edge.delete(&id).await;
}

#[tokio::test]
async fn an_invalid_listen_keeps_the_plugin_out() {
    let edge = Edge::configured(|toml| toml.replace("listen = \"", "listen = \"80; ")).await;
    assert!(edge.server.is_unknown("edge.v1.Route").await);
    assert!(
        edge.server.log().contains("plugin.routes.settings.listen: must be an IP address and a port"),
        "{}",
        edge.server.log()
    );
}
