//! Many targets, unread streams, and the ends of streams.

use linkerd2_proxy_api::outbound::{HttpRoute as OutboundRoute, OutboundPolicy, http_route::distribution::Kind};
use mortise_plugin_catalog::proto::catalog::v1::{HttpRoute, HttpRouteRule, RouteBackend, RouteParent};
use prost::Message as _;
use tokio::{task::JoinSet, time::timeout};
use tonic::Code;

use super::{Proxy, VIP, at, detect, end, next, service, service_data, until, workload, workload_data};
use crate::support::{PATIENCE, Server, Setup, any, eventually, id, refusal, resource};

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

async fn put_routes(server: &Server, number: u32, rule: &HttpRouteRule) {
    let data = HttpRoute {
        parent: Some(RouteParent { service: "web".into(), port: 0 }),
        rules: vec![rule.clone(); 16],
        services: Vec::new(),
    };
    let id = id("catalog.v1.HttpRoute", &format!("route-{number}"));
    server.write(resource(id, Some(any("catalog.v1.HttpRoute", &data)))).await.unwrap();
}

fn routes(policy: &OutboundPolicy) -> Vec<OutboundRoute> {
    detect(policy.clone()).http1.unwrap().routes
}

/// The number of backends of the first rule of a route.
fn first_backends(route: &OutboundRoute) -> usize {
    match route.rules[0].backends.as_ref().unwrap().kind.as_ref().unwrap() {
        Kind::FirstAvailable(first) => first.backends.len(),
        Kind::RandomAvailable(random) => random.backends.len(),
        Kind::Empty(_) => 0,
    }
}

/// Clients take 4 MiB: the most routes that a service may have stay below that.
#[tokio::test]
async fn the_largest_policy_is_one_that_clients_accept() {
    let server = Server::start().await;
    server.write(service("web", &service_data("web-"))).await.unwrap();
    for number in 1..=20 {
        let mut data = workload_data(&format!("10.0.0.{number}"));
        data.weight = number;
        server.write(workload(&format!("web-{number}"), &data)).await.unwrap();
    }
    let proxy = Proxy::of(&server).await;
    let known = async {
        loop {
            match proxy.watch(at(VIP)).await {
                Err(status) if status.code() == Code::NotFound => {}
                answer => return answer.unwrap(),
            }
        }
    };
    let mut policy = timeout(PATIENCE, known).await.expect("the address is known in time");
    until(&mut policy, |policy| first_backends(&routes(policy)[0]) == 20).await;
    // Each of the first rules has the weights of the workloads; with more rules they are too many.
    put_routes(&server, 0, &HttpRouteRule::default()).await;
    until(&mut policy, |policy| routes(policy)[0].rules.len() == 16 && first_backends(&routes(policy)[0]) == 20).await;
    for number in 1..8 {
        put_routes(&server, number, &HttpRouteRule::default()).await;
    }
    until(&mut policy, |policy| routes(policy).len() == 8 && first_backends(&routes(policy)[0]) == 1).await;
    // As many backends as routes may have, with the longest names.
    let backend = |number: u32| RouteBackend { service: format!("{number:063}"), port: 0, weight: Some(1) };
    let rule = HttpRouteRule { backends: (0..16).map(backend).collect(), ..HttpRouteRule::default() };
    for number in 0..9 {
        put_routes(&server, number, &rule).await;
    }
    let is_full = |policy: &OutboundPolicy| {
        let routes = routes(policy);
        routes.len() == 8 && routes.iter().all(|route| first_backends(route) == 16)
    };
    let full = until(&mut policy, is_full).await;
    assert!((500_000..4 << 20).contains(&full.encoded_len()), "{} bytes", full.encoded_len());
}
