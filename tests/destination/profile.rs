//! GetProfile: how to speak to a service, as Linkerd's proxies ask for it.

use linkerd2_proxy_api::{
    destination::{DestinationProfile, GetDestination, RetryBudget, destination_client::DestinationClient},
    meta::{Metadata, Resource, metadata::Kind},
};
use mortise_api::catalog::Endpoint;
use prost_types::Duration as ProtoDuration;
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};

use crate::{
    destination::proxy::{Api, Said, Told, addrs, at, new_told, service, setup},
    support::{PATIENCE, Server, metadata, refusal},
};

const A: &str = "10.0.0.1:8080";
const B: &str = "10.0.0.2:8080";

async fn ask(server: &Server, path: &str) -> Result<Streaming<DestinationProfile>, Status> {
    let request = GetDestination { path: path.into(), context_token: "ns:default".into(), ..GetDestination::default() };
    Ok(DestinationClient::new(server.channel().await).get_profile(request).await?.into_inner())
}

async fn next(stream: &mut Streaming<DestinationProfile>) -> DestinationProfile {
    timeout(PATIENCE, stream.message()).await.expect("a profile comes in time").unwrap().expect("the stream goes on")
}

/// The profile of an unknown service.
fn unknown() -> DestinationProfile {
    let ttl = ProtoDuration { seconds: 10, nanos: 0 };
    let budget = RetryBudget { retry_ratio: 0.2, min_retries_per_second: 10, ttl: Some(ttl) };
    DestinationProfile { retry_budget: Some(budget), ..DestinationProfile::default() }
}

fn of_web(port: u32, zone: &str) -> DestinationProfile {
    let web = Resource {
        group: "core".into(),
        kind: "Service".into(),
        name: "web".into(),
        namespace: "default".into(),
        section: String::new(),
        port,
    };
    DestinationProfile {
        fully_qualified_name: format!("web.default.svc.{zone}"),
        parent_ref: Some(Metadata { kind: Some(Kind::Resource(web)) }),
        ..unknown()
    }
}

#[tokio::test]
async fn a_service_has_the_default_profile_while_it_is_there() {
    let server = setup().env("MORTISE_DESTINATION_ZONE", "mesh.example").start().await;
    let mut profile = ask(&server, "web.default.svc").await.unwrap();
    assert_eq!(next(&mut profile).await, unknown(), "no error, which would only be asked about again");
    server.set("web", &service([at(A)])).await;
    assert_eq!(next(&mut profile).await, of_web(80, "mesh.example"));
    // A profile does not contain addresses, so the same is not sent again.
    let mut addresses = Api::Linkerd.of(&server, "web").await;
    assert_eq!(addresses.added().await, addrs(&[A]));
    server.set("web", &service([at(A), at(B)])).await;
    assert_eq!(addresses.added().await, addrs(&[B]));
    server.set("web", &service([])).await;
    assert_eq!(addresses.next().await, Said::NoEndpoints { exists: true });
    server.unset("web").await;
    assert_eq!(next(&mut profile).await, unknown());
}

/// Get tells the addresses with a number that the service does not list, so its profile has to be one to use.
#[tokio::test]
async fn a_port_that_the_service_does_not_list_is_used_as_it_is_by_both_calls() {
    let server = setup().start().await;
    server.set("web", &service([at(A)])).await;
    let mut profile = ask(&server, "web.default.svc.cluster.local:81").await.unwrap();
    assert_eq!(next(&mut profile).await, of_web(81, "cluster.local"));
    let mut get = Api::Linkerd.get(server.channel().await, "web.default.svc:81").await.unwrap();
    assert_eq!(get.added().await, addrs(&["10.0.0.1:81"]));
}

/// Proxies use weights only between the destinations of a profile.
#[tokio::test]
async fn workloads_of_different_weights_are_overrides() {
    let server = setup().start().await;
    let of = |workload: &str, addr, weight| Endpoint { workload: workload.into(), weight, ..at(addr) };
    server.set("web", &service([of("web-1", A, 9), of("web-2", B, 1)])).await;
    let mut profile = ask(&server, "web.default.svc").await.unwrap();
    let weighted = next(&mut profile).await;
    let told = |profile: &DestinationProfile| {
        profile.dst_overrides.iter().map(|one| (one.authority.clone(), one.weight)).collect::<Vec<_>>()
    };
    let name = |workload: &str| format!("{workload}.web.default.svc.cluster.local:80");
    assert_eq!(told(&weighted), [(name("web-1"), 9), (name("web-2"), 1)]);
    server.set("web", &service([of("web-1", A, 5), of("web-2", B, 5)])).await;
    assert_eq!(next(&mut profile).await, of_web(80, "cluster.local"), "equal weights need none");
}

#[tokio::test]
async fn a_workload_of_a_service_is_an_endpoint() {
    let server = setup().start().await;
    let of = |workload: &str, addr, weight| Endpoint {
        workload: workload.into(),
        weight,
        identity: "web.example".into(),
        ..at(addr)
    };
    server.set("web", &service([of("web-1", A, 3), of("web-2", B, 1)])).await;
    let mut profile = ask(&server, "web-1.web.default.svc.cluster.local").await.unwrap();
    let endpoint = next(&mut profile).await.endpoint.unwrap();
    let (addr, told) = new_told(endpoint);
    assert_eq!(vec![addr], addrs(&[A]));
    assert_eq!((told.weight, told.identity.as_str()), (3, "dns web.example, asked for as web.example"));
    assert_eq!(told.labels, metadata(&[("namespace", "default"), ("service", "web"), ("workload", "web-1")]));
    server.set("web", &service([of("web-2", B, 1)])).await;
    assert_eq!(next(&mut profile).await, unknown());
}

#[tokio::test]
async fn an_address_of_nobody_is_its_own_endpoint_and_its_stream_stays_open() {
    let server = setup().start().await;
    server.set("web", &service([at(A)])).await;
    let mut open = Vec::new();
    for path in [A, "10.0.0.1", "[2001:db8::1]:443", "2001:db8::1"] {
        let mut profile = ask(&server, path).await.unwrap();
        let mut told = next(&mut profile).await;
        let (addr, endpoint) = new_told(told.endpoint.take().unwrap());
        let expected = match path {
            "10.0.0.1" => "10.0.0.1:80",
            "2001:db8::1" => "[2001:db8::1]:80",
            path => path,
        };
        assert_eq!((vec![addr], endpoint), (addrs(&[expected]), Told::default()), "{path}");
        assert_eq!(told, unknown(), "{path}");
        open.push((path, profile));
    }
    assert!(server.stop().await.success());
    for (path, mut profile) in open {
        let next = profile.message().await;
        assert!(next.as_ref().is_err_and(|status| status.code() == Code::Unavailable), "{path}: {next:?}");
    }
}

#[tokio::test]
async fn names_that_mean_nothing_are_refused() {
    let server = setup().start().await;
    for path in ["", "web", "web.default", "web.default.svc:0", "10.0.0.1:0", "10.0.0.1:x", "web.default.svc.elsewhere"]
    {
        let (code, text) = refusal(ask(&server, path).await.map(|_| ()));
        assert_eq!(code, Code::InvalidArgument, "{path}");
        assert!(text.ends_with("; write name.namespace.svc.cluster.local:port"), "{path}: {text}");
    }
}
