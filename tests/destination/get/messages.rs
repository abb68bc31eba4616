//! Messages about the addresses of a service, and their order.

use mortise_api::catalog::{Endpoint, Health, ServiceEndpoints};
use tonic::Code;

use super::{A, ABSENT, B, C, EMPTY, add, clients, labels, of_web, remove, told};
use crate::{
    destination::proxy::{Api, BOTH, KIND, Said, Told, addrs, at, endpoints_id, service, setup},
    support::{any, id_in, make_place, resource},
};

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
    let mut open = Vec::new();
    for path in ["web.nowhere.svc", "Web.default.svc", "web_1.default.svc", "one.web.nowhere.svc:1"] {
        for api in BOTH {
            let mut client = api.get(server.channel().await, path).await.unwrap();
            assert_eq!(client.next().await, ABSENT, "{path}");
            open.push((path, client));
        }
    }
    // They stay open until the server stops.
    assert!(server.stop().await.success());
    for (path, mut client) in open {
        let next = client.message().await;
        assert!(next.as_ref().is_err_and(|status| status.code() == Code::Unavailable), "{path}: {next:?}");
    }
}

#[tokio::test]
async fn the_first_message_has_every_address_or_reports_an_empty_service() {
    let server = setup().start().await;
    server.set("web", &service([])).await;
    told(&mut clients(&server).await, &[EMPTY]).await;
    server.set("web", &service([at(B), at(C), at(A)])).await;
    // Sorted, in any order of the data.
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
