//! Two stubs of a proxy with Mortise as their only control plane: each makes the calls of a linkerd2-proxy, in its
//! order, and compares every field that a proxy reads; then they speak to each other with mutual TLS.

use std::{net::SocketAddr, sync::Arc, time::SystemTime};

use linkerd2_proxy_api::{
    destination::{
        GetDestination, TlsIdentity, WeightedAddr, destination_client::DestinationClient, tls_identity::Strategy,
        update::Update,
    },
    identity::identity_client::IdentityClient,
    inbound::{Server as Policy, authn::Permit, authn::permit_mesh_tls::Clients, proxy_protocol::Kind},
};
use mortise_api::catalog::{InboundRule, Selector, Service, ServicePort, WorkloadPort};
use mortise_keys::certificate::Certificate as Described;
use rcgen::KeyPair;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_rustls::{
    TlsAcceptor, TlsConnector,
    rustls::{
        ClientConfig, RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName},
        server::WebPkiClientVerifier,
    },
};

use super::{
    Credentials, Mesh, asked, der,
    inbound::{next, open_to_everyone, watch},
    request, workload,
};
use crate::support::*;

const WEB: &str = "web.mesh.test";
const SHOP: &str = "shop.mesh.test";

/// A stub of a proxy, with its certificate and the policies of its inbound ports.
struct Proxy {
    credentials: Credentials,
    roots: Arc<RootCertStore>,
    policies: Vec<Policy>,
}

impl Proxy {
    /// Begins as a proxy does: a certificate by the token in a file, then a stream for each inbound port and for the
    /// port of probes.
    async fn start(mesh: &Mesh, name: &str, identity: &str, secret: &str, ports: &[u16]) -> Self {
        let credentials = mesh.credentials(secret, identity).await;
        let mut roots = RootCertStore::empty();
        roots.add(der(&mesh.read("ca.pem")).into()).unwrap();
        let channel = mesh.channel(None).await;
        let mut policies = Vec::new();
        for port in ports.iter().chain(&[4191]) {
            policies.push(next(&mut watch(channel.clone(), name, *port).await).await.unwrap());
        }
        Self { credentials, roots: Arc::new(roots), policies }
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.credentials.key.serialize_der().into())
    }

    /// The acceptor of the inbound side: it asks clients for a certificate, and takes those without one.
    fn acceptor(&self) -> TlsAcceptor {
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots.clone(), provider.clone());
        let verifier = verifier.allow_unauthenticated().build().unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.credentials.chain(), self.key())
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    /// Serves one connection: the word `allowed` if the policy of the port admits the client, or else `denied`.
    async fn serve(&self, listener: &TcpListener) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = self.acceptor().accept(stream).await.unwrap();
        let names = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).map(names);
        let answer = if admits(&self.policies[0], &names.unwrap_or_default()) { "allowed" } else { "denied" };
        stream.write_all(answer.as_bytes()).await.unwrap();
        let _ = stream.shutdown().await;
    }

    /// Connects to an address as Get tells, and returns the names in the certificate of the server, and its answer.
    async fn connect(&self, address: &WeightedAddr) -> (Vec<String>, String) {
        let TlsIdentity { server_name, .. } = address.tls_identity.clone().unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_client_auth_cert(self.credentials.chain(), self.key())
            .unwrap();
        let addr: SocketAddr = address.addr.unwrap().try_into().unwrap();
        let name = ServerName::try_from(server_name.unwrap().name).unwrap();
        let stream = TcpStream::connect(addr).await.unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let mut answer = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut answer)).await.expect("an answer in time").unwrap();
        (names(&stream.get_ref().1.peer_certificates().unwrap()[0]), answer)
    }
}

fn names(certificate: &CertificateDer<'static>) -> Vec<String> {
    Described::parse(certificate).unwrap().identities()
}

/// Whether a policy admits a client from this machine's network with these names, as a proxy decides.
fn admits(policy: &Policy, names: &[String]) -> bool {
    policy.authorizations.iter().any(|authz| match authz.authentication.as_ref().unwrap().permit.as_ref().unwrap() {
        Permit::Unauthenticated(_) => true,
        Permit::MeshTls(mesh) => match mesh.clients.as_ref().unwrap() {
            Clients::Unauthenticated(_) => true,
            Clients::Identities(clients) => {
                clients.identities.iter().any(|one| names.contains(&one.name))
                    || clients.suffixes.iter().any(|suffix| {
                        let end = suffix.parts.iter().map(|part| format!(".{part}")).collect::<String>();
                        names.iter().any(|name| name.ends_with(&end))
                    })
            }
        },
    })
}

/// The settings of a server for proxies: they read without credentials, since they connect before they have a
/// certificate.
const CONFIG: &str = "[acl]\nanonymous_policies = [\"proxies\"]\n[acl.certificates]\n\"web.mesh.test\" = [\"web\"]\n";

async fn start() -> Mesh {
    let mesh = Mesh::start(CONFIG, |setup| setup).await;
    let read = mortise_resource::data::TypeRule {
        types: vec!["catalog/ServiceEndpoints".to_owned(), "catalog/Workload".to_owned()],
        verbs: vec!["read".to_owned(), "list".to_owned()],
        ..mortise_resource::data::TypeRule::default()
    };
    mesh.guarded.policy("proxies", "", vec![read]).await;
    mesh
}

#[tokio::test]
async fn two_proxies_get_all_that_they_need_and_reach_each_other_with_mutual_tls() {
    let mesh = start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let rule = InboundRule { port: "http".into(), identities: vec![SHOP.into()], ..InboundRule::default() };
    let mut data = workload(port, WEB, vec![rule]);
    data.ports.push(WorkloadPort { name: "admin".to_owned(), port: 9, ..WorkloadPort::default() });
    data.labels = [("version".to_owned(), "v1".to_owned())].into();
    mesh.write_workload("web-1", &data).await;
    let service = Service {
        selector: Some(Selector { prefixes: vec!["web-".to_owned()], ..Selector::default() }),
        ports: vec![ServicePort { name: "http".to_owned(), port: 80, ..ServicePort::default() }],
        ..Service::default()
    };
    let id = id_in("catalog.v1.Service", "web", "default", "default");
    mesh.guarded.write(resource(id, Some(any("catalog.v1.Service", &service)))).await;

    let (web_token, shop_token) = (mesh.token("web", WEB).await, mesh.token("shop", SHOP).await);
    let other_token = mesh.token("other", "other.").await;
    mesh.write_workload("shop-1", &workload(3000, SHOP, Vec::new())).await;
    mesh.write_workload("other-1", &workload(3001, "other.mesh.test", Vec::new())).await;
    let web = Proxy::start(&mesh, "web-1", WEB, &web_token, &[port, 9]).await;
    let shop = Proxy::start(&mesh, "shop-1", SHOP, &shop_token, &[3000]).await;
    let other = Proxy::start(&mesh, "other-1", "other.mesh.test", &other_token, &[]).await;
    // A port without a permission, the port of probes, and all ports of a workload without permissions.
    let default = |policy: &Policy| *policy == open_to_everyone(policy.protocol.clone().unwrap());
    assert!(!default(&web.policies[0]) && web.policies[1..].iter().chain(&shop.policies).all(default));
    for policy in web.policies.iter().chain(&shop.policies) {
        let Some(Kind::Detect(detect)) = &policy.protocol.as_ref().unwrap().kind else { panic!("{policy:?}") };
        assert_eq!(detect.timeout.as_ref().unwrap().seconds, 10);
    }

    // The outbound side of the other proxies.
    let request = GetDestination { path: "web.default.svc.cluster.local:80".to_owned(), ..GetDestination::default() };
    let mut get = DestinationClient::new(mesh.channel(None).await).get(request).await.unwrap().into_inner();
    let addresses = loop {
        let update = timeout(PATIENCE, get.message()).await.expect("an address in time").unwrap().unwrap();
        match update.update.unwrap() {
            Update::Add(set) => break set,
            Update::NoEndpoints(none) => assert!(none.exists),
            Update::Remove(_) => panic!("nothing was added"),
        }
    };
    let [address] = &*addresses.addrs else { panic!("{addresses:?}") };
    assert_eq!(SocketAddr::try_from(address.addr.unwrap()).unwrap(), listener.local_addr().unwrap());
    let TlsIdentity { strategy, server_name } = address.tls_identity.clone().unwrap();
    let Some(Strategy::DnsLikeIdentity(identity)) = strategy else { panic!("{strategy:?}") };
    assert_eq!((identity.name.as_str(), server_name.unwrap().name.as_str()), (WEB, WEB));
    assert_eq!((address.weight, address.metric_labels["version"].as_str()), (1, "v1"));
    assert_eq!(address.metric_labels["workload"], "web-1");
    assert_eq!(
        (addresses.metric_labels["service"].as_str(), addresses.metric_labels["namespace"].as_str()),
        ("web", "default")
    );

    // Both sides have verified each other; the policy then decides about the client's identity.
    for (client, expected) in [(&shop, "allowed"), (&other, "denied")] {
        let ((), (server, answer)) = tokio::join!(web.serve(&listener), client.connect(address));
        assert_eq!((server, answer.as_str()), (vec![identity.name.clone()], expected));
    }
}

#[tokio::test]
async fn a_leaf_is_renewed_before_its_end_with_the_leaf_itself() {
    let mesh = start().await;
    let secret = mesh.token("web", WEB).await;
    let first = mesh.credentials(&secret, WEB).await;
    let until = |answer: &linkerd2_proxy_api::identity::CertifyResponse| {
        SystemTime::try_from(answer.valid_until.unwrap()).unwrap()
    };
    // A proxy opens a connection for each renewal, with its certificate, and sends the same request.
    let mut client = IdentityClient::new(mesh.channel(Some(first.identity())).await);
    let again = asked("", WEB, request(&first.key, &[WEB]));
    let renewed = client.certify(again).await.unwrap().into_inner();
    assert!(SystemTime::now() < until(&first.answer) && until(&first.answer) <= until(&renewed));
    assert_ne!(renewed.leaf_certificate, first.answer.leaf_certificate);
    // Another identity is not given to it, nor this one to another certificate.
    let refused = client.certify(asked("", SHOP, request(&first.key, &[SHOP]))).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{refused}");
    let shop = mesh.token("shop", SHOP).await;
    let shop = mesh.credentials(&shop, SHOP).await;
    let mut client = IdentityClient::new(mesh.channel(Some(shop.identity())).await);
    let key = KeyPair::generate().unwrap();
    let refused = client.certify(asked("", WEB, request(&key, &[WEB]))).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{refused}");
}
