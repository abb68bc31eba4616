//! Many targets, unread streams, and the ends of streams.

use tokio::task::JoinSet;
use tonic::Code;

use super::{Proxy, VIP, at, end, next, service, service_data, until};
use crate::support::{Server, Setup, eventually, refusal};

#[tokio::test]
async fn addresses_count_as_services_and_give_their_places_back() {
    let server = Setup::new().limit("destination_services", 3).start().await;
    let proxy = Proxy::of(&server).await;
    let mut open = Vec::new();
    for number in 1..=3 {
        let mut profile = proxy.profile(&format!("192.0.2.{number}:80")).await.unwrap();
        next(&mut profile).await;
        open.push(profile);
    }
    // An address that is known already costs no place, on any port.
    next(&mut proxy.profile("192.0.2.1:81").await.unwrap()).await;
    for target in ["192.0.2.4:80", "web.default.svc:80"] {
        let (code, text) = refusal(proxy.profile(target).await.map(drop));
        assert_eq!(code, Code::ResourceExhausted);
        assert_eq!(text, "3 services and addresses are watched already (a fixed limit); try again later");
    }
    drop(open);
    server.metric_until("mortise_destination_services", 0.0).await;
    server.metric_until("mortise_destination_streams", 0.0).await;
    next(&mut proxy.profile("192.0.2.4:80").await.unwrap()).await;
}

/// 2,000 targets at once, most of them unread: each gets its answer, and the server keeps nothing afterwards.
#[tokio::test]
async fn thousands_of_targets_are_answered_and_forgotten() {
    let server = Server::start().await;
    server.write(service("web", &service_data("web-"))).await.unwrap();
    let proxy = Proxy::of(&server).await;
    until(&mut proxy.profile(VIP).await.unwrap(), |profile| profile.endpoint.is_none()).await;
    let mut calls = JoinSet::new();
    for number in 0..2_000_u32 {
        let proxy = Proxy(proxy.0.clone());
        calls.spawn(async move {
            let addr = format!("10.1.{}.{}:80", number >> 8, number & 0xff);
            let mut profile = proxy.profile(&addr).await.unwrap();
            if number % 10 == 0 {
                assert!(next(&mut profile).await.endpoint.is_some(), "{addr}");
                assert_eq!(proxy.policy(Some(at(&addr))).await.unwrap_err().code(), Code::NotFound, "{addr}");
            }
            profile
        });
    }
    let open = calls.join_all().await;
    assert_eq!(server.metric("mortise_destination_services").await, Some(2_000.0));
    // Others are served meanwhile.
    next(&mut proxy.watch(at(VIP)).await.unwrap()).await;
    drop(open);
    server.metric_until("mortise_destination_services", 0.0).await;
}

#[tokio::test]
async fn the_end_of_the_server_ends_policies_and_profiles_of_addresses() {
    let server = Server::start().await;
    server.write(service("web", &service_data("web-"))).await.unwrap();
    let proxy = Proxy::of(&server).await;
    let mut profile = proxy.profile(VIP).await.unwrap();
    until(&mut profile, |profile| profile.endpoint.is_none()).await;
    let mut policy = proxy.watch(at(VIP)).await.unwrap();
    next(&mut policy).await;
    assert!(server.stop().await.success());
    assert_eq!((end(&mut profile).await.code(), end(&mut policy).await.code()), (Code::Unavailable, Code::Unavailable));
}

#[tokio::test]
async fn without_the_plugin_policies_are_unavailable() {
    let server = Setup::new().serve().start().await;
    let proxy = Proxy::of(&server).await;
    let (code, text) = refusal(proxy.policy(Some(at(VIP))).await.map(drop));
    assert_eq!(code, Code::Unavailable);
    assert!(text.contains(r#"bundled = ["catalog"]"#), "{text}");
    std::fs::write(server.plugin_dir.join("catalog.wasm"), crate::destination::proxy::types("0.1.0")).unwrap();
    let comes = async || proxy.policy(Some(at(VIP))).await.is_err_and(|status| status.code() == Code::NotFound);
    eventually("the type is there", comes).await;
}
