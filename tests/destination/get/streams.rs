//! Heartbeats, bounds and ends of streams; the API without its plugin, disabled, and with the bundled one.

use std::collections::BTreeMap;

use mortise_api::catalog::Endpoint;
use mortise_resource::pb;
use tokio::{task::JoinSet, time::timeout};
use tonic::Code;

use super::{A, ABSENT, B, C, EMPTY, add, clients, labels, of_web, remove, told};
use crate::{
    destination::proxy::{Api, BOTH, KIND, Said, Told, addrs, at, endpoints_id, service, setup, types},
    support::{PATIENCE, Setup, any, eventually, refusal, resource},
};

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
    assert_eq!(text, "2 services and addresses are watched already (a fixed limit); try again later");
    let three = get("two").await.unwrap();
    let (code, text) = refusal(get("two").await.map(|_| ()));
    assert_eq!(code, Code::ResourceExhausted);
    assert_eq!(text, "3 streams are open already (a fixed limit); try again later");
    let metrics = server.metrics().await;
    for line in [
        "mortise_destination_streams 3",
        "mortise_destination_services 2",
        "mortise_destination_streams_refused_total 2",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    drop((one, two, three));
    let free = async || {
        let metrics = server.metrics().await;
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
    let metrics = server.metrics().await;
    let lagged = metrics.lines().find_map(|line| line.strip_prefix("mortise_watches_lagged_total "));
    eprintln!("watches that lagged: {lagged:?}");
    assert!(lagged.is_some_and(|count| count != "0"), "none ended, so nothing is shown");
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
