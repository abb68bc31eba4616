//! Shared by the tests of the destination API: services, written as the catalog's controller would, and proxies that
//! ask for them, an old one and a new one.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

use linkerd2_proxy_api::destination as linkerd;
use mortise_api::{
    ConduitDestinationClient,
    catalog::{Endpoint, EndpointPort, Health, ServiceEndpoints, ServicePort},
    conduit,
};
use mortise_resource::pb;
use prost::Message;
use tokio::time::timeout;
use tonic::{Status, Streaming, transport::Channel};

use crate::support::{PATIENCE, Server, Setup, any, id_in, resource};

pub const KIND: &str = "catalog.v1.ServiceEndpoints";

/// A server with the type of endpoints and no rules for it, so that any data can be written.
pub fn setup() -> Setup {
    Setup::new().serve().component("catalog", types("0.1.0"))
}

/// A plugin with the type of endpoints alone.
pub fn types(version: &str) -> Vec<u8> {
    let mut manifest = mortise_test_guests::good_manifest();
    (manifest.name, manifest.version) = ("catalog".to_owned(), version.to_owned());
    manifest.descriptors = Some(Message::decode(mortise_plugin_catalog::proto::DESCRIPTORS).unwrap());
    let kind = &mut manifest.types[0];
    (kind.group, kind.kind) = ("catalog".to_owned(), "ServiceEndpoints".to_owned());
    kind.message = KIND.to_owned();
    mortise_test_guests::manifest_only(&manifest.encode_to_vec())
}

/// The id of the endpoints of a service of the namespace `default`.
pub fn endpoints_id(service: &str) -> pb::Id {
    id_in(KIND, service, "default", "default")
}

impl Server {
    /// Sets the endpoints of a service of the namespace `default`.
    pub async fn set(&self, service: &str, endpoints: &ServiceEndpoints) {
        self.write(resource(endpoints_id(service), Some(any(KIND, endpoints)))).await.unwrap();
    }

    /// Deletes the endpoints of a service.
    pub async fn unset(&self, service: &str) {
        self.delete(&endpoints_id(service), "").await.unwrap();
    }
}

/// A service with the port `http`, requested as 80, and no labels.
pub fn service(endpoints: impl IntoIterator<Item = Endpoint>) -> ServiceEndpoints {
    let (name, target_port) = ("http".to_owned(), "http".to_owned());
    let http = ServicePort { name, port: 80, target_port, ..ServicePort::default() };
    ServiceEndpoints { endpoints: endpoints.into_iter().collect(), ports: vec![http], ..ServiceEndpoints::default() }
}

/// A healthy workload of weight 1, by its address.
pub fn at(addr: &str) -> Endpoint {
    let addr: SocketAddr = addr.parse().unwrap();
    let http = EndpointPort { name: "http".to_owned(), port: addr.port().into(), ..EndpointPort::default() };
    Endpoint {
        address: addr.ip().to_string(),
        weight: 1,
        health: Health::Passing.into(),
        ports: vec![http],
        ..Endpoint::default()
    }
}

/// Kind of client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// A client made from the proto of 2018.
    Conduit,
    /// Linkerd's own crate.
    Linkerd,
}

pub const BOTH: [Api; 2] = [Api::Conduit, Api::Linkerd];

pub type Labels = BTreeMap<String, String>;

/// An address in a client's view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    pub weight: u32,
    pub labels: Labels,
    /// Text `dns NAME, asked for as NAME` or `uri URI`; empty without an identity.
    pub identity: String,
}

/// Content of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Addresses in the order of the message, and labels of the set.
    Add(Vec<(SocketAddr, Told)>, Labels),
    Remove(Vec<SocketAddr>),
    NoEndpoints {
        exists: bool,
    },
}

/// An open Get stream.
pub enum Get {
    Conduit(Streaming<conduit::proxy::destination::Update>),
    Linkerd(Streaming<linkerd::Update>),
}

impl Api {
    /// Asks for a path.
    pub async fn get(self, channel: Channel, path: &str) -> Result<Get, Status> {
        self.get_by("k8s", path, "", channel).await
    }

    /// Asks for a path of a scheme, with a context token; only new clients have these.
    pub async fn get_by(self, scheme: &str, path: &str, token: &str, channel: Channel) -> Result<Get, Status> {
        let (scheme, path) = (scheme.to_owned(), path.to_owned());
        Ok(match self {
            Self::Conduit => {
                let request = conduit::common::Destination { scheme, path };
                Get::Conduit(ConduitDestinationClient::new(channel).get(request).await?.into_inner())
            }
            Self::Linkerd => {
                let request = linkerd::GetDestination { scheme, path, context_token: token.to_owned() };
                let mut client = linkerd::destination_client::DestinationClient::new(channel);
                Get::Linkerd(client.get(request).await?.into_inner())
            }
        })
    }

    /// Asks a server for a service of the namespace `default`, port 80.
    pub async fn of(self, server: &Server, service: &str) -> Get {
        self.get(server.channel().await, &format!("{service}.default.svc")).await.unwrap()
    }
}

fn labels(labels: std::collections::HashMap<String, String>) -> Labels {
    labels.into_iter().collect()
}

fn new_addr(addr: linkerd2_proxy_api::net::TcpAddress) -> SocketAddr {
    // The client's own parsing of an address.
    addr.try_into().unwrap()
}

fn old_addr(addr: conduit::common::TcpAddress) -> SocketAddr {
    use conduit::common::{IPv6, ip_address::Ip};
    let ip: IpAddr = match addr.ip.unwrap().ip.unwrap() {
        Ip::Ipv4(ip) => std::net::Ipv4Addr::from(ip).into(),
        Ip::Ipv6(IPv6 { first, last }) => std::net::Ipv6Addr::from(u128::from(first) << 64 | u128::from(last)).into(),
    };
    SocketAddr::new(ip, addr.port.try_into().unwrap())
}

fn identity(identity: linkerd::TlsIdentity) -> String {
    use linkerd::tls_identity::Strategy;
    let asked = identity.server_name.map_or(String::new(), |name| format!(", asked for as {}", name.name));
    match identity.strategy.unwrap() {
        Strategy::DnsLikeIdentity(name) => format!("dns {}{asked}", name.name),
        Strategy::UriLikeIdentity(uri) => format!("uri {}{asked}", uri.uri),
    }
}

pub fn new_told(addr: linkerd::WeightedAddr) -> (SocketAddr, Told) {
    let linkerd::WeightedAddr { addr, weight, metric_labels, tls_identity, .. } = addr;
    let identity = tls_identity.map(identity).unwrap_or_default();
    (new_addr(addr.unwrap()), Told { weight, labels: labels(metric_labels), identity })
}

fn old_told(addr: conduit::proxy::destination::WeightedAddr) -> (SocketAddr, Told) {
    let told = Told { weight: addr.weight, labels: addr.metric_labels, identity: String::new() };
    (old_addr(addr.addr.unwrap()), told)
}

impl Get {
    /// The next message; `None` when the stream ends without an error.
    pub async fn message(&mut self) -> Result<Option<Said>, Status> {
        Ok(match self {
            Self::Conduit(stream) => {
                use conduit::proxy::destination::update::Update;
                stream.message().await?.map(|update| match update.update.expect("a member") {
                    Update::Add(set) => Said::Add(set.addrs.into_iter().map(old_told).collect(), set.metric_labels),
                    Update::Remove(set) => Said::Remove(set.addrs.into_iter().map(old_addr).collect()),
                    Update::NoEndpoints(none) => Said::NoEndpoints { exists: none.exists },
                })
            }
            Self::Linkerd(stream) => {
                use linkerd::update::Update;
                stream.message().await?.map(|update| match update.update.expect("a member") {
                    Update::Add(set) => {
                        Said::Add(set.addrs.into_iter().map(new_told).collect(), labels(set.metric_labels))
                    }
                    Update::Remove(set) => Said::Remove(set.addrs.into_iter().map(new_addr).collect()),
                    Update::NoEndpoints(none) => Said::NoEndpoints { exists: none.exists },
                })
            }
        })
    }

    /// The next message, within the time limit.
    pub async fn next(&mut self) -> Said {
        let message = timeout(PATIENCE, self.message()).await.expect("a message comes in time");
        message.expect("the stream goes on").expect("the stream goes on")
    }

    /// The addresses of the next message, which must be an add.
    #[track_caller]
    pub fn added(&mut self) -> impl Future<Output = Vec<SocketAddr>> {
        let at = std::panic::Location::caller();
        async move {
            match self.next().await {
                Said::Add(added, _) => added.into_iter().map(|(addr, _)| addr).collect(),
                other => panic!("expected an add at {at}, got {other:?}"),
            }
        }
    }

    /// The status at the end of the stream; earlier messages are skipped.
    pub async fn end(&mut self) -> Option<Status> {
        let end = async {
            loop {
                match self.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(status) => return Some(status),
                }
            }
        };
        timeout(PATIENCE, end).await.expect("the stream ends in time")
    }
}

/// Addresses.
pub fn addrs(all: &[&str]) -> Vec<SocketAddr> {
    all.iter().map(|addr| addr.parse().unwrap()).collect()
}

/// A proxy's state of a service. As in the reference proxies, old and new, it survives a reconnect until the first
/// message.
#[derive(Debug, Default)]
pub struct Proxy {
    pub set: BTreeMap<SocketAddr, Told>,
    pub labels: Labels,
    /// Whether the next message is the first of its connection.
    pub is_first: bool,
    pub exists: bool,
}

impl Proxy {
    /// Notes a new connection.
    pub fn reconnect(&mut self) {
        self.is_first = true;
    }

    /// Takes a message. Panics where a new client would fail an assertion.
    pub fn hear(&mut self, said: Said) {
        match said {
            Said::Add(added, labels) => {
                if self.is_first {
                    assert!(!added.is_empty(), "the first message says something");
                    self.set.clear();
                }
                if !added.is_empty() {
                    self.exists = true;
                    self.labels = labels;
                }
                let distinct: BTreeSet<_> = added.iter().map(|(addr, _)| *addr).collect();
                assert_eq!(distinct.len(), added.len(), "each address comes once");
                self.set.extend(added);
            }
            Said::Remove(gone) => {
                assert!(!self.is_first, "the first message is no remove");
                for addr in gone {
                    assert!(self.set.remove(&addr).is_some(), "{addr} was known");
                }
                assert!(!self.set.is_empty(), "the last address goes with no_endpoints");
            }
            Said::NoEndpoints { exists } => {
                self.set.clear();
                self.exists = exists;
            }
        }
        self.is_first = false;
    }
}
