//! Ports, names, schemes and context tokens of requests.

use mortise_api::catalog::{Endpoint, EndpointPort, ServiceEndpoints, ServicePort};
use tonic::Code;

use super::{A, B, C, EMPTY, add, clients, remove, told};
use crate::{
    destination::proxy::{Api, BOTH, addrs, at, service, setup},
    support::refusal,
};

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
