//! The destination API: messages to proxies about services, by the rules of docs/destination.md, each for an old client
//! and a new one.

use std::collections::BTreeMap;

use mortise_api::catalog::{Endpoint, EndpointPort, Health, ServiceEndpoints, ServicePort};
use mortise_resource::pb;
use tokio::{task::JoinSet, time::timeout};
use tonic::Code;

use crate::{
    destination::proxy::{Api, BOTH, Get, KIND, Said, Told, addrs, at, endpoints_id, service, setup, types},
    support::{PATIENCE, Server, Setup, any, eventually, id_in, make_place, metadata, refusal, resource},
};

const A: &str = "10.0.0.1:8080";
const B: &str = "10.0.0.2:8080";
const C: &str = "10.0.0.3:8080";

const ABSENT: Said = Said::NoEndpoints { exists: false };
const EMPTY: Said = Said::NoEndpoints { exists: true };

/// A client of each kind that asks for `web`.
async fn clients(server: &Server) -> Vec<Get> {
    let mut all = Vec::new();
    for api in BOTH {
        all.push(api.of(server, "web").await);
    }
    all
}

/// Expects these messages as the next ones of every client.
#[track_caller]
fn told<'a>(clients: &'a mut [Get], expected: &'a [Said]) -> impl Future<Output = ()> + 'a {
    let at = std::panic::Location::caller();
    async move {
        for client in clients {
            for said in expected {
                assert_eq!(client.next().await, *said, "{at}");
            }
        }
    }
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    metadata(pairs)
}

/// The labels of `web`.
fn of_web() -> BTreeMap<String, String> {
    labels(&[("namespace", "default"), ("service", "web")])
}

/// An `add` of addresses of `web` of weight 1.
fn add(all: &[&str]) -> Said {
    let told = Told { weight: 1, ..Told::default() };
    Said::Add(addrs(all).into_iter().map(|addr| (addr, told.clone())).collect(), of_web())
}

fn remove(all: &[&str]) -> Said {
    Said::Remove(addrs(all))
}

#[tokio::test]
async fn a_missing_service_is_reported_at_once_and_found_when_it_appears() {
    let server = setup().start().await;
    let mut clients = clients(&server).await;
    told(&mut clients, &[ABSENT]).await;
    // Services with similar names are separate.
    server.set("web-2", &service([at(B)])).await;
    make_place(&server, "default", "other").await;
    server.write(resource(id_in(KIND, "web", "default", "other"), Some(any(KIND, &service([at(B)]))))).await.unwrap();
    server.set("web", &service([at(A)])).await;
    told(&mut clients, &[add(&[A])]).await;
    for path in ["web.nowhere.svc", "Web.default.svc", "web_1.default.svc", "one.web.nowhere.svc:1"] {
        for api in BOTH {
            let mut client = api.get(server.channel().await, path).await.unwrap();
            assert_eq!(client.next().await, ABSENT, "{path}");
            assert!(client.is_quiet().await, "{path}: the stream stays open");
        }
    }
}

#[tokio::test]
async fn the_first_message_has_every_address_or_reports_an_empty_service() {
    let server = setup().start().await;
    server.set("web", &service([])).await;
    told(&mut clients(&server).await, &[EMPTY]).await;
    server.set("web", &service([at(B), at(C), at(A)])).await;
    // Sorted, whatever the order in the data.
    let mut clients = clients(&server).await;
    told(&mut clients, &[add(&[A, B, C])]).await;
    // Nothing else was sent.
    server.set("web", &service([at(B), at(C)])).await;
    told(&mut clients, &[remove(&[A])]).await;
}

#[tokio::test]
async fn new_and_changed_addresses_are_added_before_others_are_removed() {
    let server = setup().start().await;
    server.set("web", &service([at(A), at(B)])).await;
    let mut clients = clients(&server).await;
    told(&mut clients, &[add(&[A, B])]).await;
    // Every address changes: the service never looks empty meanwhile.
    server.set("web", &service([at(C), at("10.0.0.4:8080")])).await;
    told(&mut clients, &[add(&[C, "10.0.0.4:8080"]), remove(&[A, B])]).await;
    server.set("web", &service([at(C)])).await;
    told(&mut clients, &[remove(&["10.0.0.4:8080"])]).await;
    server.set("web", &service([at(B), at(C)])).await;
    told(&mut clients, &[add(&[B])]).await;
    // One host with two ports is two addresses.
    server.set("web", &service([at(B), at(C), at("10.0.0.3:8081")])).await;
    told(&mut clients, &[add(&["10.0.0.3:8081"])]).await;
}

#[tokio::test]
async fn another_weight_or_label_is_an_add_of_that_address_alone() {
    let server = setup().start().await;
    server.set("web", &service([at(A), at(B)])).await;
    let mut clients = clients(&server).await;
    told(&mut clients, &[add(&[A, B])]).await;
    let heavy = Endpoint { weight: 65_535, ..at(A) };
    server.set("web", &service([heavy.clone(), at(B)])).await;
    let expected = Said::Add(vec![(addrs(&[A])[0], Told { weight: 65_535, ..Told::default() })], of_web());
    told(&mut clients, &[expected]).await;
    let labelled = Endpoint {
        workload: "web-1".into(),
        zone: "rack-2".into(),
        labels: labels(&[("tier", "gold"), ("zone", "its own zone goes first")]),
        ..heavy
    };
    server.set("web", &service([labelled, at(B)])).await;
    let with = Told {
        weight: 65_535,
        labels: labels(&[("tier", "gold"), ("workload", "web-1"), ("zone", "rack-2")]),
        identity: String::new(),
    };
    told(&mut clients, &[Said::Add(vec![(addrs(&[A])[0], with)], of_web())]).await;
}

#[tokio::test]
async fn other_labels_of_the_service_come_with_every_address() {
    let server = setup().start().await;
    let with = |pairs: &[(&str, &str)], endpoints: &[Endpoint]| ServiceEndpoints {
        labels: labels(pairs),
        ..service(endpoints.iter().cloned())
    };
    server.set("web", &with(&[("team", "a")], &[at(A), at(B)])).await;
    let mut clients = clients(&server).await;
    let labelled = |all: &[&str], team: &str| match add(all) {
        Said::Add(added, mut labels) => {
            labels.insert("team".into(), team.into());
            Said::Add(added, labels)
        }
        other => other,
    };
    told(&mut clients, &[labelled(&[A, B], "a")]).await;
    server.set("web", &with(&[("team", "b"), ("service", "no other name")], &[at(A), at(C)])).await;
    told(&mut clients, &[labelled(&[A, C], "b"), remove(&[B])]).await;
    // Labels are part of every later add, too.
    server.set("web", &with(&[("team", "b")], &[at(A), at(B), at(C)])).await;
    told(&mut clients, &[labelled(&[B], "b")]).await;
}

#[tokio::test]
async fn only_healthy_endpoints_are_sent_and_health_changes_are_adds_and_removes() {
    let server = setup().start().await;
    let ill = |addr, health: Health| Endpoint { health: health.into(), ..at(addr) };
    server.set("web", &service([at(A), ill(B, Health::Critical), ill(C, Health::Unspecified)])).await;
    let mut clients = clients(&server).await;
    told(&mut clients, &[add(&[A])]).await;
    server.set("web", &service([at(A), at(B), ill(C, Health::Critical)])).await;
    told(&mut clients, &[add(&[B])]).await;
    server.set("web", &service([ill(A, Health::Critical), at(B)])).await;
    told(&mut clients, &[remove(&[A])]).await;
    server.set("web", &service([ill(A, Health::Critical), ill(B, Health::Critical)])).await;
    told(&mut clients, &[EMPTY]).await;
    server.set("web", &service([at(A), ill(B, Health::Critical)])).await;
    told(&mut clients, &[add(&[A])]).await;
}

#[tokio::test]
async fn empty_and_missing_services_have_their_own_messages() {
    let server = setup().start().await;
    server.set("web", &service([at(A), at(B)])).await;
    let mut clients = clients(&server).await;
    told(&mut clients, &[add(&[A, B])]).await;
    server.set("web", &service([])).await;
    told(&mut clients, &[EMPTY]).await;
    server.unset("web").await;
    told(&mut clients, &[ABSENT]).await;
    server.set("web", &service([])).await;
    told(&mut clients, &[EMPTY]).await;
    server.set("web", &service([at(A)])).await;
    told(&mut clients, &[add(&[A])]).await;
    server.unset("web").await;
    told(&mut clients, &[ABSENT]).await;
    server.set("web", &service([at(A), at(B)])).await;
    told(&mut clients, &[add(&[A, B])]).await;
}

#[tokio::test]
async fn changes_that_clients_cannot_see_are_not_sent() {
    let server = setup().start().await;
    server.set("web", &service([at(A), at(B)])).await;
    let mut clients = clients(&server).await;
    told(&mut clients, &[add(&[A, B])]).await;
    // The same set in another order, with other metadata and an unhealthy endpoint.
    let mut same = resource(
        endpoints_id("web"),
        Some(any(KIND, &service([Endpoint { health: Health::Critical.into(), ..at(C) }, at(B), at(A)]))),
    );
    same.metadata = labels(&[("note", "other")]);
    server.write(same).await.unwrap();
    // An old client ignores an identity.
    server.set("web", &service([Endpoint { identity: "a.example".into(), ..at(A) }, at(B)])).await;
    let known = Told { weight: 1, identity: "dns a.example, asked for as a.example".into(), ..Told::default() };
    assert_eq!(clients[1].next().await, Said::Add(vec![(addrs(&[A])[0], known)], of_web()));
    server.set("web", &service([at(B)])).await;
    told(&mut clients, &[remove(&[A])]).await;
}

#[tokio::test]
async fn identities_are_names_or_uris() {
    let server = setup().start().await;
    let uri = "spiffe://example.org/web";
    let with = |addr, identity: &str| Endpoint { identity: identity.into(), ..at(addr) };
    server.set("web", &service([with(A, "web.example"), with(B, uri), at(C)])).await;
    let Said::Add(added, _) = Api::Linkerd.of(&server, "web").await.next().await else { panic!("an add") };
    let identities: Vec<_> = added.into_iter().map(|(_, told)| told.identity).collect();
    assert_eq!(identities, ["dns web.example, asked for as web.example", "uri spiffe://example.org/web", ""]);
}

#[tokio::test]
async fn an_address_comes_once_and_names_of_hosts_do_not() {
    let server = setup().start().await;
    let again = Endpoint { weight: 7, ..at(A) };
    let named = Endpoint { address: "db.example".into(), ..at(B) };
    let six = at("[2001:db8::1]:8080");
    server.set("web", &service([six.clone(), at(A), again, named, six])).await;
    told(&mut clients(&server).await, &[add(&[A, "[2001:db8::1]:8080"])]).await;
}

#[tokio::test]
async fn a_port_is_the_service_s_number_then_its_name_and_any_other_number_itself() {
    let server = setup().start().await;
    let port = |name: &str, port| EndpointPort { name: name.into(), port, ..EndpointPort::default() };
    let listed = |name: &str, port| ServicePort { name: name.into(), port, ..ServicePort::default() };
    let both = Endpoint { ports: vec![port("http", 8080), port("admin", 9090)], ..at(A) };
    let one = Endpoint { ports: vec![port("http", 8081)], ..at(B) };
    let odd = Endpoint { ports: vec![port("http", 0), port("admin", 70_000)], ..at(C) };
    let web = ServiceEndpoints {
        ports: vec![listed("http", 80), listed("admin", 81), listed("none", 82)],
        ..service([both, one, odd])
    };
    server.set("web", &web).await;
    for (asked, expected) in [
        ("", add(&[A, "10.0.0.2:8081"])),
        (":80", add(&[A, "10.0.0.2:8081"])),
        (":81", add(&["10.0.0.1:9090"])),
        (":82", EMPTY),
        (":8080", add(&[A, B, C])),
        (":65535", add(&["10.0.0.1:65535", "10.0.0.2:65535", "10.0.0.3:65535"])),
    ] {
        for api in BOTH {
            let mut client = api.get(server.channel().await, &format!("web.default.svc{asked}")).await.unwrap();
            assert_eq!(client.next().await, expected, "{asked}");
        }
    }
    // A change of the target port is a change like any other.
    let mut clients = clients(&server).await;
    told(&mut clients, &[add(&[A, "10.0.0.2:8081"])]).await;
    let moved = ServiceEndpoints { ports: vec![listed("admin", 80)], ..web };
    server.set("web", &moved).await;
    told(&mut clients, &[add(&["10.0.0.1:9090"]), remove(&[A, "10.0.0.2:8081"])]).await;
}

#[tokio::test]
async fn an_instance_is_one_workload_of_a_service() {
    let server = setup().start().await;
    let of = |workload: &str, addr| Endpoint { workload: workload.into(), ..at(addr) };
    server.set("web", &service([of("web-1", A), of("web-2", B), of("web-1", C)])).await;
    for api in BOTH {
        let mut one = api.get(server.channel().await, "web-1.web.default.svc.cluster.local").await.unwrap();
        let mut none = api.get(server.channel().await, "web-3.web.default.svc").await.unwrap();
        assert_eq!(one.added().await, addrs(&[A, C]));
        assert_eq!(none.next().await, EMPTY);
    }
}

#[tokio::test]
async fn invalid_names_and_schemes_are_refused_with_the_correct_form() {
    let server = setup().env("MORTISE_DESTINATION_ZONE", "mesh.example").start().await;
    server.set("web", &service([at(A)])).await;
    for api in BOTH {
        for path in [
            "web.default.svc",
            "web.default.svc:80",
            "web.default.svc.mesh.example",
            "web.default.svc.mesh.example.:80",
            "web.default.svc.cluster.local",
            "web.default.svc.cluster.local.",
        ] {
            for scheme in ["k8s", ""] {
                let mut client = api.get_by(scheme, path, "", server.channel().await).await.unwrap();
                assert_eq!(client.next().await, add(&[A]), "{path}");
            }
        }
        for path in [
            "",
            "web",
            "web.default",
            "web.default.pod.cluster.local",
            "web.default.svc.elsewhere",
            "a.b.web.default.svc",
            "web.default.svc:0",
            "web.default.svc:65536",
            "web.default.svc:http",
            "web.default.svc:",
            "web.default.svc:80:80",
            "-web.default.svc",
            "web..svc",
            "10.0.0.1:8080",
            "10.0.0.1",
            "[::1]:80",
            "::1",
        ] {
            let refused = api.get(server.channel().await, path).await.map(|_| ());
            let (code, text) = refusal(refused);
            assert_eq!(code, Code::InvalidArgument, "{path}");
            assert!(text.ends_with("; write name.namespace.svc.mesh.example:port"), "{path}: {text}");
        }
        for scheme in ["dns", "K8S"] {
            let refused = api.get_by(scheme, "web.default.svc", "", server.channel().await).await.map(|_| ());
            assert_eq!(refusal(refused).0, Code::InvalidArgument, "{scheme}");
        }
    }
}

#[tokio::test]
async fn context_tokens_of_clients_are_never_an_error() {
    let server = setup().start().await;
    server.set("web", &service([at(A)])).await;
    for token in ["", "ns:prod", r#"{"ns":"prod","nodeName":"n","pod":"p"}"#, "{", "\u{0}", &"x".repeat(10_000)] {
        let mut client = Api::Linkerd.get_by("", "web.default.svc", token, server.channel().await).await.unwrap();
        assert_eq!(client.next().await, add(&[A]), "{token:?}");
    }
}

#[tokio::test]
async fn a_heartbeat_is_an_empty_add_only_while_there_are_endpoints() {
    let server = setup().limit("destination_heartbeat_ms", 100).start().await;
    let mut clients = clients(&server).await;
    let empty_add = Said::Add(Vec::new(), BTreeMap::new());
    told(&mut clients, &[ABSENT, ABSENT, ABSENT]).await;
    for (now, then, heartbeat) in [
        (service([]), EMPTY, EMPTY),
        (service([at(A)]), add(&[A]), empty_add.clone()),
        (service([at(A), at(B)]), add(&[B]), empty_add.clone()),
        (service([]), EMPTY, EMPTY),
    ] {
        server.set("web", &now).await;
        for client in &mut clients {
            // Heartbeats with the former state may still arrive.
            while client.next().await != then {}
            for _ in 0..3 {
                assert_eq!(client.next().await, heartbeat, "after {then:?}");
            }
        }
    }
}

#[tokio::test]
async fn without_the_plugin_the_error_tells_how_to_enable_it() {
    let server = Setup::new().serve().start().await;
    for api in BOTH {
        let (code, text) = refusal(api.get(server.channel().await, "web.default.svc").await.map(|_| ()));
        assert_eq!(code, Code::Unavailable);
        assert!(text.contains("plugin catalog") && text.contains(r#"bundled = ["catalog"]"#), "{text}");
    }
    // The plugin may come later.
    std::fs::write(server.plugin_dir.join("catalog.wasm"), types("0.1.0")).unwrap();
    let comes = async || Api::Linkerd.get(server.channel().await, "web.default.svc").await.is_ok();
    eventually("the type is there", comes).await;
}

#[tokio::test]
async fn streams_outlive_their_plugin_and_its_versions() {
    let server = setup().start().await;
    server.set("web", &service([at(A)])).await;
    let mut clients = clients(&server).await;
    told(&mut clients, &[add(&[A])]).await;
    std::fs::write(server.plugin_dir.join("catalog.wasm"), types("0.2.0")).unwrap();
    eventually("the new version serves", async || server.log().contains("0.2.0")).await;
    server.set("web", &service([at(A), at(B)])).await;
    told(&mut clients, &[add(&[B])]).await;
    std::fs::remove_file(server.plugin_dir.join("catalog.wasm")).unwrap();
    let gone = async || server.write(resource(endpoints_id("other"), Some(any(KIND, &service([]))))).await.is_err();
    eventually("the plugin is gone", gone).await;
    // The known state stays: the next message is the next change.
    std::fs::write(server.plugin_dir.join("catalog.wasm"), types("0.2.0")).unwrap();
    let back = async || server.write(resource(endpoints_id("other"), Some(any(KIND, &service([]))))).await.is_ok();
    eventually("the plugin is back", back).await;
    server.set("web", &service([at(B)])).await;
    told(&mut clients, &[remove(&[A])]).await;
}

#[tokio::test]
async fn streams_and_services_are_bounded_and_places_come_back() {
    let server = setup().limit("destination_streams", 3).limit("destination_services", 2).start().await;
    let channel = server.channel().await;
    let get = async |service: &str| Api::Linkerd.get(channel.clone(), &format!("{service}.default.svc")).await;
    let one = get("one").await.unwrap();
    let two = get("two").await.unwrap();
    let (code, text) = refusal(get("three").await.map(|_| ()));
    assert_eq!(code, Code::ResourceExhausted);
    assert_eq!(text, "2 services are watched already (a fixed limit)");
    let three = get("two").await.unwrap();
    let (code, text) = refusal(get("two").await.map(|_| ()));
    assert_eq!(code, Code::ResourceExhausted);
    assert_eq!(text, "3 streams are open already (a fixed limit); try again later");
    let (_, metrics) = server.get("/metrics").await;
    for line in [
        "mortise_destination_streams 3",
        "mortise_destination_services 2",
        "mortise_destination_streams_refused_total 2",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    drop((one, two, three));
    let free = async || {
        let (_, metrics) = server.get("/metrics").await;
        metrics.contains("mortise_destination_streams 0") && metrics.contains("mortise_destination_services 0")
    };
    eventually("all streams are gone", free).await;
    get("three").await.unwrap();
}

#[tokio::test]
async fn known_services_are_bounded_in_bytes() {
    let server = setup().env("MORTISE_DESTINATION_STATE_BYTES", 64 << 10).start().await;
    let many = |count: u32| service((0..count).map(|n| at(&format!("10.1.{}.{}:8080", n / 250, n % 250 + 1))));
    server.set("big", &many(1_000)).await;
    server.set("small", &many(1)).await;
    let channel = server.channel().await;
    let mut big = Api::Linkerd.get(channel.clone(), "big.default.svc").await.unwrap();
    assert_eq!(big.added().await.len(), 1_000);
    for path in ["small.default.svc", "big.default.svc:1"] {
        let (code, text) = refusal(Api::Linkerd.get(channel.clone(), path).await.map(|_| ()));
        assert_eq!(code, Code::ResourceExhausted);
        assert!(text.contains("65536 bytes, limit destination.state_bytes"), "{text}");
    }
    // A known service costs nothing more.
    let mut again = Api::Conduit.get(channel.clone(), "big.default.svc").await.unwrap();
    assert_eq!(again.added().await.len(), 1_000);
    drop((big, again));
    eventually("there is room again", async || Api::Linkerd.get(channel.clone(), "small.default.svc").await.is_ok())
        .await;
}

#[tokio::test]
async fn the_watch_of_a_service_may_end_and_its_streams_go_on() {
    // A lag of two events is too much.
    let server = setup().limit("watch_buffer", 1).start().await;
    server.set("web", &service([at(A)])).await;
    let mut clients = clients(&server).await;
    told(&mut clients, &[add(&[A])]).await;
    for _ in 0..3 {
        let mut writes = JoinSet::new();
        for n in 0..200 {
            let mut client = server.client();
            let other = resource(endpoints_id(&format!("web-{n}")), Some(any(KIND, &service([at(A)]))));
            writes.spawn(async move { client.write(pb::WriteRequest { resource: Some(other) }).await.unwrap() });
        }
        server.set("web", &service([at(A), at(B)])).await;
        writes.join_all().await;
        server.set("web", &service([at(A), at(B), at(C)])).await;
        for client in &mut clients {
            // Changes may be merged; the service never looks empty.
            let mut known = 1;
            while known < 3 {
                match client.next().await {
                    Said::Add(added, _) => known += added.len(),
                    other => panic!("{other:?}"),
                }
            }
        }
        server.set("web", &service([at(A)])).await;
        told(&mut clients, &[remove(&[B, C])]).await;
    }
    let (_, metrics) = server.get("/metrics").await;
    let lagged = metrics.lines().find_map(|line| line.strip_prefix("mortise_watches_lagged_total "));
    eprintln!("watches that lagged: {lagged:?}");
    assert!(lagged.is_some(), "none ended, so nothing is shown");
}

#[tokio::test]
async fn streams_end_at_once_when_the_server_stops() {
    let server = setup().long_grace().start().await;
    server.set("web", &service([at(A)])).await;
    let mut clients = clients(&server).await;
    told(&mut clients, &[add(&[A])]).await;
    let stopped = tokio::spawn(server.stop());
    for client in &mut clients {
        let end = client.end().await;
        assert!(end.as_ref().is_none_or(|status| status.code() == Code::Unavailable), "{end:?}");
    }
    assert!(timeout(PATIENCE, stopped).await.unwrap().unwrap().success());
}

#[tokio::test]
async fn a_disabled_api_is_unimplemented() {
    let server = setup().env("MORTISE_DESTINATION_ENABLED", false).start().await;
    for api in BOTH {
        assert_eq!(
            refusal(api.get(server.channel().await, "web.default.svc").await.map(|_| ())).0,
            Code::Unimplemented
        );
    }
}

#[tokio::test]
async fn answers_come_from_the_bundled_catalog() {
    let server = Setup::new().start().await;
    server.set("web", &service([Endpoint { workload: "web-1".into(), ..at(A) }])).await;
    let web = Told { weight: 1, labels: labels(&[("workload", "web-1")]), identity: String::new() };
    told(&mut clients(&server).await, &[Said::Add(vec![(addrs(&[A])[0], web)], of_web())]).await;
}
