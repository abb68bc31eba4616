//! Routes between services.

use linkerd2_proxy_api::outbound::{HttpRoute as OutboundRoute, http_route, traffic_spec::Target};
use mortise_plugin_catalog::proto::catalog::v1::{
    HttpHeaderMatch, HttpRoute, HttpRouteMatch, HttpRouteRetry, HttpRouteRule, HttpStatusRange, RouteBackend,
    RouteParent, http_route_match::Path,
};
use mortise_resource::pb;
use prost_types::Duration as ProtoDuration;

use super::{
    Proxy, VIP, default_metadata, detect, metadata_of, next, path, service, service_data, until, workload,
    workload_data,
};
use crate::{
    destination::proxy::{Api, addrs},
    support::{Server, any, controllers::condition_until, id, id_of, resource},
};

fn route(name: &str, data: &HttpRoute) -> pb::Resource {
    resource(id("catalog.v1.HttpRoute", name), Some(any("catalog.v1.HttpRoute", data)))
}

fn canary(weight: u32) -> HttpRoute {
    let backend = |service: &str, weight| RouteBackend { service: service.into(), port: 0, weight: Some(weight) };
    let rule = HttpRouteRule {
        backends: vec![backend("web", 100 - weight), backend("web-next", weight)],
        ..HttpRouteRule::default()
    };
    HttpRoute { parent: Some(RouteParent { service: "web".into(), port: 80 }), rules: vec![rule], services: Vec::new() }
}

/// The backends of a rule's distribution: paths and weights.
fn shares(rule: &http_route::Rule) -> Vec<(String, u32)> {
    use http_route::distribution::Kind;
    let backend = |one: &http_route::RouteBackend| path(one.backend.as_ref().unwrap());
    match rule.backends.as_ref().unwrap().kind.as_ref().unwrap() {
        Kind::FirstAvailable(first) => first.backends.iter().map(|one| (backend(one), 1)).collect(),
        Kind::RandomAvailable(random) => {
            random.backends.iter().map(|one| (backend(one.backend.as_ref().unwrap()), one.weight)).collect()
        }
        Kind::Empty(_) => Vec::new(),
    }
}

fn full(service: &str) -> String {
    format!("{service}.default.svc.cluster.local:80")
}

#[tokio::test]
async fn a_canary_gets_its_share_of_the_requests() {
    let server = Server::start().await;
    let mut next_data = service_data("web-next-");
    next_data.virtual_addresses.clear();
    server.write(workload("web-1", &workload_data("10.0.0.1"))).await.unwrap();
    server.write(workload("web-next-1", &workload_data("10.0.1.1"))).await.unwrap();
    server.write(service("web", &service_data("web-1"))).await.unwrap();
    let proxy = Proxy::of(&server).await;
    let mut profile = proxy.profile(VIP).await.unwrap();
    until(&mut profile, |profile| profile.dst_overrides.len() == 1).await;
    let mut policy = proxy.watch(Target::Authority(full("web"))).await.unwrap();
    let routes = |policy| detect(policy).http2.unwrap().routes;
    let first: Vec<OutboundRoute> = routes(next(&mut policy).await);
    assert_eq!(
        (first[0].metadata.clone(), shares(&first[0].rules[0])),
        (default_metadata("http"), vec![(full("web"), 1)])
    );

    let stored = server.write(route("canary", &canary(10))).await.unwrap();
    let found = routes(next(&mut policy).await);
    assert_eq!(found[0].metadata, metadata_of("catalog", "HttpRoute", "canary", 0));
    assert_eq!(shares(&found[0].rules[0]), [(full("web"), 90), (full("web-next"), 10)]);
    // Destinations of the profile would win over the routes.
    assert!(next(&mut profile).await.dst_overrides.is_empty());
    let key = "catalog.v1/route";
    let missing = condition_until(&server, &id_of(&stored), key, "Backends", |found| found.reason == "NoService").await;
    assert!(missing.message.contains("web-next"), "{}", missing.message);
    server.write(service("web-next", &next_data)).await.unwrap();
    condition_until(&server, &id_of(&stored), key, "Backends", |found| found.reason == "Found").await;
    let mut get = Api::Linkerd.get(server.channel().await, &full("web-next")).await.unwrap();
    assert_eq!(get.added().await, addrs(&["10.0.1.1:8080"]));

    for weight in [50, 100] {
        server.write(route("canary", &canary(weight))).await.unwrap();
        let found = routes(next(&mut policy).await);
        let expected = match weight {
            100 => vec![(full("web-next"), 1)],
            _ => vec![(full("web"), 50), (full("web-next"), 50)],
        };
        assert_eq!(shares(&found[0].rules[0]), expected, "{weight}");
    }
    server.delete(&id_of(&stored), "").await.unwrap();
    assert_eq!(routes(next(&mut policy).await), first);
    assert_eq!(next(&mut profile).await.dst_overrides.len(), 1);
}

#[tokio::test]
async fn matches_timeouts_and_retries_are_those_of_the_route() {
    let server = Server::start().await;
    server.write(service("web", &service_data("web-"))).await.unwrap();
    let second = ProtoDuration { seconds: 1, nanos: 0 };
    let rule = HttpRouteRule {
        matches: vec![
            HttpRouteMatch {
                path: Some(Path::PathPrefix("/api".into())),
                headers: vec![HttpHeaderMatch { name: "x-canary".into(), exact: "yes".into() }],
                method: "GET".into(),
            },
            HttpRouteMatch {
                path: Some(Path::ExactPath("/exact".into())),
                method: "PURGE".into(),
                ..HttpRouteMatch::default()
            },
        ],
        request_timeout: Some(ProtoDuration { seconds: 5, nanos: 0 }),
        backend_request_timeout: Some(second),
        retry: Some(HttpRouteRetry { max: 2, statuses: vec![HttpStatusRange { from: 502, to: 504 }] }),
        ..HttpRouteRule::default()
    };
    let once = HttpRouteRule { backend_request_timeout: Some(second), ..HttpRouteRule::default() };
    let data = HttpRoute { rules: vec![rule, once], ..canary(1) };
    server.write(route("api", &data)).await.unwrap();
    server
        .write(route(
            "other-port",
            &HttpRoute { parent: Some(RouteParent { service: "web".into(), port: 81 }), ..canary(1) },
        ))
        .await
        .unwrap();
    let proxy = Proxy::of(&server).await;
    let mut policy = proxy.watch(Target::Authority(full("web"))).await.unwrap();
    let has_route = |policy: &linkerd2_proxy_api::outbound::OutboundPolicy| format!("{policy:?}").contains("\"api\"");
    let found = detect(until(&mut policy, has_route).await);
    let routes = found.http1.unwrap().routes;
    assert_eq!(found.http2.unwrap().routes, routes);
    let [route] = routes.as_slice() else { panic!("routes of another port: {routes:?}") };
    let [rule, once] = route.rules.as_slice() else { panic!("{route:?}") };
    assert_eq!(shares(rule), [(full("web"), 1)], "the parent by default");
    {
        use linkerd2_proxy_api::{
            http_route::{HeaderMatch, HttpRouteMatch, PathMatch, Timeouts, header_match::Value, path_match::Kind},
            http_types::{
                HttpMethod,
                http_method::{Registered, Type},
            },
        };
        let kind = |kind| Some(PathMatch { kind: Some(kind) });
        let method = |of| Some(HttpMethod { r#type: Some(of) });
        let header = HeaderMatch { name: "x-canary".into(), value: Some(Value::Exact(b"yes".to_vec())) };
        let expected = [
            HttpRouteMatch {
                path: kind(Kind::Prefix("/api".into())),
                headers: vec![header],
                method: method(Type::Registered(Registered::Get.into())),
                ..HttpRouteMatch::default()
            },
            HttpRouteMatch {
                path: kind(Kind::Exact("/exact".into())),
                method: method(Type::Unregistered("PURGE".into())),
                ..HttpRouteMatch::default()
            },
        ];
        assert_eq!(rule.matches, expected);
        let request = Some(ProtoDuration { seconds: 5, nanos: 0 });
        assert_eq!(rule.timeouts, Some(Timeouts { request, response: None, idle: None }));
        assert_eq!(once.timeouts, Some(Timeouts { request: None, response: Some(second), idle: None }));
    }
    let retry = rule.retry.as_ref().unwrap();
    assert_eq!((retry.max_retries, retry.timeout, retry.max_request_bytes), (2, Some(second), 64 << 10));
    let ranges: Vec<_> =
        retry.conditions.as_ref().unwrap().status_ranges.iter().map(|range| (range.start, range.end)).collect();
    assert_eq!(ranges, [(502, 504)]);
    assert_eq!((&once.matches[..], &once.retry), (&[][..], &None));
}
