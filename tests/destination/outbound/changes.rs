//! Changes that reach open streams.

use linkerd2_proxy_api::{destination::DestinationProfile, outbound::traffic_spec::Target};
use mortise_plugin_catalog::proto::catalog::v1::{Service, ServicePort, VirtualAddress, Workload};
use mortise_resource::{data, pb};
use tonic::Code;

use super::{Proxy, VIP, at, detect, end, next, service, service_data, until, workload, workload_data};
use crate::support::{
    Server, Setup, controllers::condition_until, decoded, eventually, gvk, id, id_of, tokens::Guarded,
};

fn is_nobody(profile: &DestinationProfile) -> bool {
    let endpoint = profile.endpoint.as_ref();
    profile.fully_qualified_name.is_empty() && endpoint.is_some_and(|endpoint| endpoint.tls_identity.is_none())
}

fn is_of(profile: &DestinationProfile, service: &str) -> bool {
    profile.fully_qualified_name == format!("{service}.default.svc.cluster.local") && profile.endpoint.is_none()
}

#[tokio::test]
async fn a_profile_follows_the_service_that_has_the_address() {
    let server = Server::start().await;
    let proxy = Proxy::of(&server).await;
    let mut profile = proxy.profile(VIP).await.unwrap();
    assert!(is_nobody(&next(&mut profile).await));
    let none = Service { virtual_addresses: Vec::new(), ..service_data("web-") };
    server.write(service("web", &none)).await.unwrap();
    server.write(service("web", &service_data("web-"))).await.unwrap();
    assert!(is_of(&next(&mut profile).await, "web"));
    let mut policy = proxy.watch(at(VIP)).await.unwrap();
    next(&mut policy).await;
    // Another service cannot take the address while the first one has it.
    server.write(service("api", &service_data("api-"))).await.unwrap();
    let taken =
        condition_until(&server, &id("catalog.v1.Service", "api"), "catalog.v1/addresses", "Addressed", |found| {
            found.reason == "Taken"
        })
        .await;
    assert!(taken.message.contains("default/web"), "{}", taken.message);
    let web = id_of(&server.write(service("web", &none)).await.unwrap());
    assert!(is_of(&until(&mut profile, |profile| !is_nobody(profile)).await, "api"));
    // The address was without a service for a moment, so the earlier stream may have ended.
    let mut policy = proxy.watch(at(VIP)).await.unwrap();
    until(&mut policy, |policy| format!("{:?}", policy.metadata).contains("\"api\"")).await;
    let api = server.read(&id("catalog.v1.Service", "api")).await.unwrap();
    server.delete(&id_of(&api), "").await.unwrap();
    assert!(is_nobody(&until(&mut profile, is_nobody).await));
    assert_eq!(end(&mut policy).await.code(), Code::NotFound, "the proxy goes on by the profile");
    server.delete(&web, "").await.unwrap();
}

#[tokio::test]
async fn a_profile_follows_the_workload_at_its_address() {
    let server = Server::start().await;
    let proxy = Proxy::of(&server).await;
    let mut profile = proxy.profile("10.0.0.1:8080").await.unwrap();
    assert!(is_nobody(&next(&mut profile).await));
    let identified = Workload { identity: "web.example.org".into(), ..workload_data("10.0.0.1") };
    let stored = server.write(workload("web-1", &identified)).await.unwrap();
    let endpoint = next(&mut profile).await.endpoint.unwrap();
    assert!(endpoint.tls_identity.is_some() && endpoint.protocol_hint.is_some());
    let mut policy = proxy.watch(at("10.0.0.1:8080")).await.unwrap();
    next(&mut policy).await;
    // Changes of others are not sent.
    server.write(workload("web-2", &workload_data("10.0.0.2"))).await.unwrap();
    server.write(workload("web-1", &Workload { weight: 7, ..identified.clone() })).await.unwrap();
    assert_eq!(next(&mut profile).await.endpoint.unwrap().weight, 7);
    next(&mut policy).await;
    // Of two workloads at one address, the one with the port is meant.
    let other = Workload { ports: Vec::new(), ..workload_data("10.0.0.1") };
    server.write(workload("a", &other)).await.unwrap();
    server.write(workload("web-1", &Workload { weight: 8, ..identified })).await.unwrap();
    let endpoint = next(&mut profile).await.endpoint.unwrap();
    assert_eq!((endpoint.weight, endpoint.metric_labels.get("workload").map(String::as_str)), (8, Some("web-1")));
    server.delete(&id("catalog.v1.Workload", "a"), "").await.unwrap();
    server.delete(&id_of(&stored), "").await.unwrap();
    assert!(is_nobody(&next(&mut profile).await));
    assert_eq!(end(&mut policy).await.code(), Code::NotFound);
}

#[tokio::test]
async fn a_policy_follows_the_protocol_of_its_port_and_nothing_else() {
    let server = Server::start().await;
    server.write(service("web", &service_data("web-"))).await.unwrap();
    let proxy = Proxy::of(&server).await;
    let name = Target::Authority("web.default.svc.cluster.local:80".into());
    let mut policy = proxy.watch(name).await.unwrap();
    detect(next(&mut policy).await);
    // Endpoints are for Get.
    server.write(workload("web-1", &workload_data("10.0.0.1"))).await.unwrap();
    let opaque = ServicePort { opaque: true, ..service_data("").ports.remove(0) };
    server.write(service("web", &Service { ports: vec![opaque], ..service_data("web-") })).await.unwrap();
    let changed = next(&mut policy).await;
    assert!(format!("{changed:?}").contains("Opaque("), "{changed:?}");
}

/// A range of the settings gives each service an address, which a restart does not change.
#[tokio::test]
async fn assigned_addresses_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let setup = || {
        Setup::new().data_dir(dir.path()).config("[plugin.catalog.settings]\nvirtual_addresses = [\"10.97.0.0/24\"]\n")
    };
    let addresses = async |server: &Server| {
        let tenancy = pb::Tenancy { partition: "default".into(), namespace: String::new() };
        let kind = gvk("catalog.v1.VirtualAddress");
        let all = server.list(kind, tenancy, "").await.unwrap();
        all.iter().map(decoded::<VirtualAddress>).map(|one| (one.service, one.address)).collect::<Vec<_>>()
    };
    let server = setup().start().await;
    let none = Service { virtual_addresses: Vec::new(), ..service_data("web-") };
    for number in 0..5 {
        server.write(service(&format!("web-{number}"), &none)).await.unwrap();
    }
    let all = async || addresses(&server).await.len() == 5;
    eventually("each service has an address", all).await;
    let before = addresses(&server).await;
    assert!(server.stop().await.success());
    let server = setup().start().await;
    server.write(service("web-5", &none)).await.unwrap();
    let all = async || addresses(&server).await.len() == 6;
    eventually("the new service has an address, too", all).await;
    let after = addresses(&server).await;
    assert!(before.iter().all(|one| after.contains(one)), "{before:?} {after:?}");
    let (name, address) = &after[0];
    let profile = next(&mut Proxy::of(&server).await.profile(&format!("{address}:80")).await.unwrap()).await;
    assert!(is_of(&profile, name), "{profile:?}");
}

/// A caller learns as much by an address as by the name behind it.
#[tokio::test]
async fn an_address_shows_no_more_than_the_permission_to_read_its_endpoints() {
    let guarded = Guarded::start(Setup::new()).await;
    let put = async |resource| _ = guarded.write(resource).await;
    put(service("web", &service_data("web-"))).await;
    put(workload("web-1", &Workload { identity: "web.example.org".into(), ..workload_data("10.0.0.1") })).await;
    let rule = data::TypeRule {
        types: vec!["catalog/ServiceEndpoints".into()],
        verbs: vec!["list".into(), "read".into()],
        ..data::TypeRule::default()
    };
    guarded.policy("endpoints", "", vec![rule]).await;
    let may = guarded.token("may", &["endpoints"], |_| {}).await;
    guarded.policy("other", "key_prefix \"x\" { policy = \"read\" }", Vec::new()).await;
    let must_not = guarded.token("must-not", &["other"], |_| {}).await;
    for (secret, sees) in [(&may, true), (&must_not, false)] {
        for addr in [VIP, "10.0.0.1:8080"] {
            let request = linkerd2_proxy_api::destination::GetDestination { path: addr.into(), ..Default::default() };
            let mut client = linkerd2_proxy_api::destination::destination_client::DestinationClient::new(
                guarded.channel(secret).await,
            );
            let mut profile = client.get_profile(request).await.unwrap().into_inner();
            if sees {
                until(&mut profile, |profile| profile.parent_ref.is_some()).await;
            } else {
                let found = next(&mut profile).await;
                assert!(is_nobody(&found) && found.parent_ref.is_none(), "{addr}: {found:?}");
            }
        }
    }
}

/// A service that declares the address of a workload takes it. That needs the right to write services.
#[tokio::test]
async fn a_service_takes_the_address_of_a_workload_with_the_right_to_write_services_alone() {
    let guarded = Guarded::start(Setup::new()).await;
    guarded.write(workload("db-1", &workload_data("10.96.0.10"))).await;
    let read = data::TypeRule {
        types: vec!["catalog/ServiceEndpoints".into()],
        verbs: vec!["list".into(), "read".into()],
        ..data::TypeRule::default()
    };
    let write = |of: &str| data::TypeRule {
        types: vec![format!("catalog/{of}")],
        verbs: vec!["write".into(), "read".into()],
        ..data::TypeRule::default()
    };
    guarded.policy("workloads", "", vec![read.clone(), write("Workload")]).await;
    guarded.policy("services", "", vec![read, write("Service")]).await;
    let workloads = guarded.token("workloads", &["workloads"], |_| {}).await;
    let services = guarded.token("services", &["services"], |_| {}).await;
    let request = linkerd2_proxy_api::destination::GetDestination { path: VIP.into(), ..Default::default() };
    let channel = guarded.channel(&services).await;
    let mut client = linkerd2_proxy_api::destination::destination_client::DestinationClient::new(channel);
    let mut profile = client.get_profile(request).await.unwrap().into_inner();
    let of_workload = next(&mut profile).await;
    assert_eq!(of_workload.parent_ref, super::metadata_of("catalog", "Workload", "db-1", 80), "{of_workload:?}");

    let thief = service("thief", &service_data("thief-"));
    let put = async |secret: &str| {
        let request = pb::WriteRequest { resource: Some(thief.clone()) };
        guarded.resources(secret).await.write(request).await.map(drop)
    };
    let refused = put(&workloads).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    put(&services).await.unwrap();
    // The first change is that of the right, so the refused write changed nothing.
    let taken = until(&mut profile, |profile| profile.endpoint.is_none()).await;
    assert!(is_of(&taken, "thief"), "{taken:?}");
    guarded.delete(id("catalog.v1.Service", "thief")).await;
    until(&mut profile, |profile| *profile == of_workload).await;
}
