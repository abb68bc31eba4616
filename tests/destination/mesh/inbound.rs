//! Policies for inbound connections: each field that a proxy reads, and their changes.

use std::collections::HashMap;

use linkerd2_proxy_api::{
    inbound::{
        self, Authn, Authz, IdentitySuffix, Network, PortSpec, ProxyProtocol, Server as Policy, authn,
        inbound_server_policies_client::InboundServerPoliciesClient, proxy_protocol,
    },
    meta::{Metadata, Resource, metadata},
    net::{IPv6, IpAddress, IpNetwork, ip_address},
};
use mortise_api::catalog::{InboundRule, Protocol, WorkloadPort};
use mortise_resource::data;
use tokio::time::timeout;
use tonic::{Code, Status, Streaming, transport::Channel};

use super::{WORKLOAD, workload};
use crate::support::{tokens::Guarded, *};

/// The port in [`workload`].
const PORT: u16 = 8080;

pub fn spec(workload: &str, port: u32) -> PortSpec {
    PortSpec { workload: workload.to_owned(), port }
}

/// Opens a stream for a port of a workload of the namespace `default`.
pub async fn watch(channel: Channel, name: &str, port: u16) -> Streaming<Policy> {
    let token = format!("{{\"ns\":\"default\", \"pod\":\"{name}\"}}");
    InboundServerPoliciesClient::new(channel).watch_port(spec(&token, port.into())).await.unwrap().into_inner()
}

pub async fn next(stream: &mut Streaming<Policy>) -> Result<Policy, Status> {
    let message = timeout(PATIENCE, stream.message()).await.expect("a policy in time")?;
    Ok(message.expect("a stream never ends without a status"))
}

fn v4(ip: u32, prefix_len: u32) -> Network {
    let ip = Some(IpAddress { ip: Some(ip_address::Ip::Ipv4(ip)) });
    Network { net: Some(IpNetwork { ip, prefix_len }), except: Vec::new() }
}

fn every_network() -> Vec<Network> {
    let ip = Some(IpAddress { ip: Some(ip_address::Ip::Ipv6(IPv6 { first: 0, last: 0 })) });
    vec![v4(0, 0), Network { net: Some(IpNetwork { ip, prefix_len: 0 }), except: Vec::new() }]
}

fn labels(group: &str, kind: &str, name: &str) -> HashMap<String, String> {
    [("group", group), ("kind", kind), ("name", name)].map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn detect() -> ProxyProtocol {
    let timeout = Some(prost_types::Duration { seconds: 10, nanos: 0 });
    let detect = proxy_protocol::Detect { timeout, ..proxy_protocol::Detect::default() };
    ProxyProtocol { kind: Some(proxy_protocol::Kind::Detect(detect)) }
}

fn anybody() -> authn::Permit {
    authn::Permit::Unauthenticated(authn::PermitUnauthenticated {})
}

fn clients(identities: &[&str], suffixes: &[&[&str]]) -> authn::Permit {
    use authn::permit_mesh_tls::{Clients, PermitClientIdentities};
    let identity = |name: &&str| inbound::Identity { name: (*name).to_owned() };
    let suffix = |parts: &&[&str]| IdentitySuffix { parts: parts.iter().map(|part| (*part).to_owned()).collect() };
    let clients = PermitClientIdentities {
        identities: identities.iter().map(identity).collect(),
        suffixes: suffixes.iter().map(suffix).collect(),
    };
    authn::Permit::MeshTls(authn::PermitMeshTls { clients: Some(Clients::Identities(clients)) })
}

/// The policy of a port without permissions.
pub fn open_to_everyone(protocol: ProxyProtocol) -> Policy {
    let labels = labels("", "default", "all-unauthenticated");
    let metadata = Metadata { kind: Some(metadata::Kind::Default("all-unauthenticated".to_owned())) };
    let authz = Authz {
        networks: every_network(),
        authentication: Some(Authn { permit: Some(anybody()) }),
        labels: labels.clone(),
        metadata: Some(metadata),
    };
    Policy { protocol: Some(protocol), server_ips: Vec::new(), authorizations: vec![authz], labels }
}

/// The policy of a port with these permissions of `web-1`.
fn permitted(port: u16, permits: Vec<(Vec<Network>, authn::Permit)>) -> Policy {
    let labels = labels("catalog", "Workload", "web-1");
    let origin = Resource {
        group: "catalog".to_owned(),
        kind: "Workload".to_owned(),
        name: "web-1".to_owned(),
        namespace: "default".to_owned(),
        section: String::new(),
        port: port.into(),
    };
    let authz = |(networks, permit)| Authz {
        networks,
        authentication: Some(Authn { permit: Some(permit) }),
        labels: labels.clone(),
        metadata: Some(Metadata { kind: Some(metadata::Kind::Resource(origin.clone())) }),
    };
    let authorizations = permits.into_iter().map(authz).collect();
    Policy { protocol: Some(detect()), server_ips: Vec::new(), authorizations, labels }
}

fn rule(port: &str, identities: &[&str]) -> InboundRule {
    let identities = identities.iter().map(|one| (*one).to_owned()).collect();
    InboundRule { port: port.to_owned(), identities, ..InboundRule::default() }
}

async fn put(server: &Server, rules: Vec<InboundRule>, change: impl FnOnce(&mut mortise_api::catalog::Workload)) {
    let mut data = workload(PORT, "", rules);
    change(&mut data);
    let id = id_in(WORKLOAD, "web-1", "default", "default");
    server.write(resource(id, Some(any(WORKLOAD, &data)))).await.unwrap();
}

/// The refusal of a workload that does not exist. A proxy keeps the policy that it has, and asks again.
async fn absent(server: &Server, name: &str) -> Status {
    let mut client = InboundServerPoliciesClient::new(server.channel().await);
    let request = spec(&format!("default:{name}"), PORT.into());
    let (got, watched) = (client.get_port(request.clone()).await, client.watch_port(request).await);
    let (got, watched) = (got.map(drop).unwrap_err(), watched.map(drop).unwrap_err());
    assert_eq!((got.code(), got.message()), (watched.code(), watched.message()));
    got
}

#[tokio::test]
async fn a_workload_that_is_gone_opens_no_port() {
    let server = Setup::new().start().await;
    let text = |name: &str| {
        format!(
            "the workload default/{name} does not exist, so it has no policy; create the Workload, and the proxy gets it \
             when it asks again"
        )
    };
    // The second is not a legal name; it gets the same answer.
    for name in ["web-1", "WEB_1"] {
        let status = absent(&server, name).await;
        assert_eq!((status.code(), status.message()), (Code::NotFound, text(name).as_str()));
    }
    put(&server, vec![rule("http", &["client.mesh.test"])], |_| ()).await;
    let restricted = permitted(PORT, vec![(every_network(), clients(&["client.mesh.test"], &[]))]);
    let mut stream = watch(server.channel().await, "web-1", PORT).await;
    assert_eq!(next(&mut stream).await.unwrap(), restricted);
    let mut client = InboundServerPoliciesClient::new(server.channel().await);
    let got = client.get_port(spec("default:web-1", PORT.into())).await.unwrap().into_inner();
    assert_eq!(got, restricted);
    server.delete(&id_in(WORKLOAD, "web-1", "default", "default"), "").await.unwrap();
    let ended = next(&mut stream).await.unwrap_err();
    assert_eq!((ended.code(), ended.message()), (Code::NotFound, text("web-1").as_str()));
    assert_eq!(absent(&server, "web-1").await.code(), Code::NotFound);
    // Workloads with longer names are others.
    let longer = workload(PORT, "", vec![rule("", &["a.mesh.test"])]);
    let id = id_in(WORKLOAD, "web-12", "default", "default");
    server.write(resource(id, Some(any(WORKLOAD, &longer)))).await.unwrap();
    assert_eq!(absent(&server, "web-1").await.code(), Code::NotFound);
    put(&server, vec![rule("", &["*.mesh.test"])], |_| ()).await;
    let suffix = permitted(PORT, vec![(every_network(), clients(&[], &[&["mesh", "test"]]))]);
    let mut stream = watch(server.channel().await, "web-1", PORT).await;
    assert_eq!(next(&mut stream).await.unwrap(), suffix);
}

#[tokio::test]
async fn only_changes_of_the_policy_are_sent() {
    let server = Setup::new().start().await;
    put(&server, vec![rule("", &["a.mesh.test"])], |_| ()).await;
    let mut stream = watch(server.channel().await, "web-1", PORT).await;
    let mut admin = watch(server.channel().await, "web-1", 4191).await;
    let a = permitted(PORT, vec![(every_network(), clients(&["a.mesh.test"], &[]))]);
    assert_eq!(next(&mut stream).await.unwrap(), a);
    assert_eq!(next(&mut admin).await.unwrap(), open_to_everyone(detect()));
    // Neither a label nor a permission of another port changes this policy.
    put(&server, vec![rule("", &["a.mesh.test"])], |data| data.zone = "rack-2".to_owned()).await;
    put(&server, vec![rule("", &["a.mesh.test"]), rule("other", &["b.mesh.test"])], |data| {
        data.ports.push(WorkloadPort { name: "other".to_owned(), port: 9, ..WorkloadPort::default() });
    })
    .await;
    let mesh_only = InboundRule { mesh_only: true, ..rule("", &[]) };
    let near = InboundRule { networks: vec!["10.0.0.0/8".to_owned(), "192.0.2.1".to_owned()], ..rule("http", &[]) };
    put(&server, vec![mesh_only, near.clone()], |_| ()).await;
    let networks = vec![v4(0x0a00_0000, 8), v4(0xc000_0201, 32)];
    assert_eq!(next(&mut stream).await.unwrap(), permitted(PORT, vec![(networks.clone(), anybody())]));
    let any_identity = InboundRule { mesh_only: true, ..rule("8080", &[]) };
    put(&server, vec![any_identity, near], |_| ()).await;
    let both = vec![(every_network(), clients(&[], &[&[]])), (networks, anybody())];
    assert_eq!(next(&mut stream).await.unwrap(), permitted(PORT, both));
    // All of this did not concern the port of probes. With the end of the server its stream ends, too.
    server.signal("TERM");
    assert_eq!(next(&mut admin).await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(next(&mut stream).await.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn the_protocol_is_that_of_the_workload_s_port() {
    let server = Setup::new().start().await;
    let mut client = InboundServerPoliciesClient::new(server.channel().await);
    for (protocol, expected) in [
        (Protocol::Http, proxy_protocol::Kind::Http1(proxy_protocol::Http1::default())),
        (Protocol::Http2, proxy_protocol::Kind::Http2(proxy_protocol::Http2::default())),
        (Protocol::Grpc, proxy_protocol::Kind::Grpc(proxy_protocol::Grpc::default())),
        (Protocol::Tcp, detect().kind.unwrap()),
    ] {
        put(&server, Vec::new(), |data| data.ports[0].protocol = protocol.into()).await;
        let policy = client.get_port(spec("default:web-1", PORT.into())).await.unwrap().into_inner();
        assert_eq!(policy, open_to_everyone(ProxyProtocol { kind: Some(expected) }));
    }
}

#[tokio::test]
async fn wrong_requests_are_invalid() {
    let server = Setup::new().start().await;
    let mut client = InboundServerPoliciesClient::new(server.channel().await);
    for (workload, port, fault) in [
        ("", 80, "workload: \"\" is not a workload"),
        ("web-1", 80, "NAMESPACE:WORKLOAD"),
        ("{\"ns\":\"default\"}", 80, "NAMESPACE:WORKLOAD"),
        ("default:web-1", 0, "port: a port is a number from 1 to 65535, got 0"),
        ("default:web-1", 65_536, "got 65536"),
    ] {
        for refused in [
            client.get_port(spec(workload, port)).await.map(drop).unwrap_err(),
            client.watch_port(spec(workload, port)).await.map(drop).unwrap_err(),
        ] {
            assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
            assert!(refused.message().contains(fault), "{refused}");
        }
    }
}

/// The workload must not look absent to a caller that may not read it.
#[tokio::test]
async fn a_caller_that_may_not_read_the_workload_gets_no_policy() {
    let guarded = Guarded::start(Setup::new()).await;
    let data = workload(PORT, "", vec![rule("", &["a.mesh.test"])]);
    guarded.write(resource(id_in(WORKLOAD, "web-1", "default", "default"), Some(any(WORKLOAD, &data)))).await;
    let allow = |verbs: &[&str], names: &[&str]| data::TypeRule {
        types: vec!["catalog/Workload".to_owned()],
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..data::TypeRule::default()
    };
    guarded.policy("list", "", vec![allow(&["list"], &[])]).await;
    guarded.policy("reads", "", vec![allow(&["list", "read"], &["web-1"])]).await;
    let (list, reads) =
        (guarded.token("list", &["list"], |_| ()).await, guarded.token("reads", &["reads"], |_| ()).await);
    for secret in ["", &list] {
        let mut client = InboundServerPoliciesClient::new(guarded.channel(secret).await);
        let refused = client.watch_port(spec("default:web-1", PORT.into())).await.map(drop).unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        // Only a caller with permissions learns that no workload has the name.
        let refused = client.get_port(spec("default:WEB", PORT.into())).await.map(drop).unwrap_err();
        let expected = if secret.is_empty() { Code::PermissionDenied } else { Code::NotFound };
        assert_eq!(refused.code(), expected, "{refused}");
    }
    let mut client = InboundServerPoliciesClient::new(guarded.channel(&reads).await);
    let mut stream = client.watch_port(spec("default:web-1", PORT.into())).await.unwrap().into_inner();
    assert_eq!(next(&mut stream).await.unwrap().labels["name"], "web-1");
    // The stream ends when the right is taken.
    guarded.policy("reads", "", Vec::new()).await;
    let ended = next(&mut stream).await.unwrap_err();
    assert_eq!(ended.code(), Code::PermissionDenied, "{ended}");
}

#[tokio::test]
async fn without_the_plugin_and_over_the_limit_streams_are_refused() {
    let server = Setup::new().serve().start().await;
    let mut client = InboundServerPoliciesClient::new(server.channel().await);
    let refused = client.watch_port(spec("default:web-1", 80)).await.map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    assert!(refused.message().contains("enable the plugin catalog"), "{refused}");

    let server = Setup::new().limit("destination_streams", 1).start().await;
    let channel = server.channel().await;
    put(&server, Vec::new(), |_| ()).await;
    let mut first = watch(channel.clone(), "web-1", PORT).await;
    next(&mut first).await.unwrap();
    let mut client = InboundServerPoliciesClient::new(channel);
    let refused = client.watch_port(spec("default:web-2", 80)).await.map(drop).unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
}
