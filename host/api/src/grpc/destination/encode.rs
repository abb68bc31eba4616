//! Encodes updates. The messages of both packages have the same field numbers, and those for Conduit's proxies lack
//! some fields; so one encoder serves both, and Conduit's proxies get a prefix of the bytes for others.
//!
//! Each message has gRPC's prefix: a byte for "not compressed", and four for the length.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use hyper::body::Bytes;
use prost::{
    Message,
    encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len},
};

use super::super::frames::{PREFIX_BYTES, prefix};
use crate::linkerd::{
    destination::{ProtocolHint, TlsIdentity, WeightedAddr, WeightedAddrSet, protocol_hint, tls_identity},
    net,
};

/// Field numbers.
const UPDATE_ADD: u32 = 1;
const UPDATE_REMOVE: u32 = 2;
const SET_ADDRS: u32 = 1;
const WEIGHTED_ADDR_TLS_IDENTITY: u32 = 5;
const WEIGHTED_ADDR_PROTOCOL_HINT: u32 = 6;

/// Port of a proxy for connections from other proxies. A proxy uses it for opaque ports.
const INBOUND_PORT: u32 = 4143;

/// The package of the sent messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Dialect {
    /// `conduit.proxy.destination`, without identities.
    Conduit,
    /// `io.linkerd.proxy.destination`.
    Linkerd,
}

/// An address of a service, encoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) addr: SocketAddr,
    /// An encoded WeightedAddr.
    bytes: Box<[u8]>,
    /// Length of the prefix for Conduit's proxies, bytes.
    conduit: usize,
}

impl Address {
    /// Encodes an address. An empty identity means none. `is_opaque`: proxies pass the bytes of the port on.
    pub(super) fn new(
        addr: SocketAddr,
        weight: u32,
        metric_labels: BTreeMap<String, String>,
        name: TlsName<'_>,
        is_opaque: bool,
    ) -> Self {
        let address = WeightedAddr { addr: Some(tcp_address(addr)), weight, metric_labels, ..WeightedAddr::default() };
        let mut bytes = address.encode_to_vec();
        let conduit = bytes.len();
        if !name.identity.is_empty() {
            prost::encoding::message::encode(WEIGHTED_ADDR_TLS_IDENTITY, &tls_identity(name), &mut bytes);
        }
        if has_proxy(name) {
            prost::encoding::message::encode(WEIGHTED_ADDR_PROTOCOL_HINT, &protocol_hint(is_opaque), &mut bytes);
        }
        Self { addr, bytes: bytes.into(), conduit }
    }

    /// The message's bytes in a dialect.
    pub(super) fn encoded(&self, dialect: Dialect) -> &[u8] {
        match dialect {
            Dialect::Conduit => self.bytes.get(..self.conduit).unwrap_or_default(),
            Dialect::Linkerd => &self.bytes,
        }
    }

    /// Size in memory, bytes.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>() + self.bytes.len()
    }
}

/// The identity of a workload in TLS, and the name that clients ask for in the handshake. Either may be empty.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TlsName<'a> {
    pub(super) identity: &'a str,
    pub(super) server_name: &'a str,
}

/// An identity with a scheme is a URI; other identities are DNS names, which are server names unless there is another.
fn tls_identity(name: TlsName<'_>) -> TlsIdentity {
    use tls_identity::{DnsLikeIdentity, Strategy, UriLikeIdentity};
    let dns = |name: &str| DnsLikeIdentity { name: name.to_owned() };
    let server_name = Some(name.server_name).filter(|name| !name.is_empty());
    if name.identity.contains(':') {
        let strategy = Strategy::UriLikeIdentity(UriLikeIdentity { uri: name.identity.to_owned() });
        return TlsIdentity { strategy: Some(strategy), server_name: server_name.map(dns) };
    }
    TlsIdentity {
        strategy: Some(Strategy::DnsLikeIdentity(dns(name.identity))),
        server_name: Some(dns(server_name.unwrap_or(name.identity))),
    }
}

/// Whether a proxy is at an address: one with an identity that clients can use. They speak to others in the clear.
fn has_proxy(name: TlsName<'_>) -> bool {
    !name.identity.is_empty() && (!name.identity.contains(':') || !name.server_name.is_empty())
}

/// The protocol between two proxies. An endpoint without a proxy does not understand it.
fn protocol_hint(is_opaque: bool) -> ProtocolHint {
    use protocol_hint::{H2, Opaque, OpaqueTransport, Protocol};
    match is_opaque {
        true => ProtocolHint {
            protocol: Some(Protocol::Opaque(Opaque {})),
            opaque_transport: Some(OpaqueTransport { inbound_port: INBOUND_PORT }),
        },
        false => ProtocolHint { protocol: Some(Protocol::H2(H2 {})), opaque_transport: None },
    }
}

pub(super) fn tcp_address(addr: SocketAddr) -> net::TcpAddress {
    net::TcpAddress { ip: Some(ip_address(addr.ip())), port: addr.port().into() }
}

/// An address without a port.
pub(in crate::grpc) fn ip_address(ip: IpAddr) -> net::IpAddress {
    let ip = match ip {
        IpAddr::V4(ip) => net::ip_address::Ip::Ipv4(ip.to_bits()),
        IpAddr::V6(ip) => {
            let bits = ip.to_bits();
            net::ip_address::Ip::Ipv6(net::IPv6 { first: (bits >> 64) as u64, last: bits as u64 })
        }
    };
    net::IpAddress { ip: Some(ip) }
}

/// The labels of a whole service, encoded as fields of a WeightedAddrSet.
pub(super) fn set_labels(metric_labels: BTreeMap<String, String>) -> Box<[u8]> {
    WeightedAddrSet { addrs: Vec::new(), metric_labels }.encode_to_vec().into()
}

/// Appends an Update that adds addresses, with the service's labels.
pub(super) fn add<'a>(
    out: &mut Vec<u8>,
    dialect: Dialect,
    addresses: impl Iterator<Item = &'a Address> + Clone,
    set_labels: &[u8],
) {
    let items = addresses.map(|address| address.encoded(dialect));
    let length = items.clone().map(|item| field_len(SET_ADDRS, item.len())).sum::<usize>() + set_labels.len();
    update(out, UPDATE_ADD, length);
    for item in items {
        field(out, SET_ADDRS, item.len());
        out.extend_from_slice(item);
    }
    out.extend_from_slice(set_labels);
}

/// Appends an Update that removes addresses.
pub(super) fn remove(out: &mut Vec<u8>, addresses: impl Iterator<Item = SocketAddr>) {
    let items: Vec<_> = addresses.map(|addr| tcp_address(addr).encode_to_vec()).collect();
    update(out, UPDATE_REMOVE, items.iter().map(|item| field_len(SET_ADDRS, item.len())).sum());
    for item in items {
        field(out, SET_ADDRS, item.len());
        out.extend_from_slice(&item);
    }
}

/// The Update for a service without addresses.
pub(super) fn no_endpoints(exists: bool) -> Bytes {
    Bytes::from_static(match exists {
        true => &[0, 0, 0, 0, 4, 0x1a, 2, 8, 1],
        false => &[0, 0, 0, 0, 2, 0x1a, 0],
    })
}

/// An Update without content: an empty `add`.
pub(super) fn empty_add() -> Bytes {
    Bytes::from_static(&[0, 0, 0, 0, 2, 0x0a, 0])
}

/// Begins an Update with one field of `length` bytes.
fn update(out: &mut Vec<u8>, number: u32, length: usize) {
    let message = field_len(number, length);
    out.reserve(PREFIX_BYTES + message);
    prefix(out, message);
    field(out, number, length);
}

fn field(out: &mut Vec<u8>, number: u32, length: usize) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(length as u64, out);
}

fn field_len(number: u32, length: usize) -> usize {
    key_len(number) + encoded_len_varint(length as u64) + length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{conduit, linkerd};

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn address(addr: &str, weight: u32) -> Address {
        Address::new(addr.parse().unwrap(), weight, BTreeMap::new(), TlsName::default(), false)
    }

    /// The single message of a frame.
    fn message(frame: &[u8]) -> &[u8] {
        let length = u32::from_be_bytes(frame[1..5].try_into().unwrap());
        assert_eq!((frame[0], length as usize), (0, frame.len() - PREFIX_BYTES));
        &frame[PREFIX_BYTES..]
    }

    fn added(addresses: &[Address], labels: &[(&str, &str)], dialect: Dialect) -> Vec<u8> {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let mut out = Vec::new();
        add(&mut out, dialect, addresses.iter(), &set_labels(labels));
        message(&out).to_vec()
    }

    /// The bytes in section 1.4 of the reference.
    #[test]
    fn golden_bytes() {
        let tcp = |addr: &str| hex(&tcp_address(addr.parse().unwrap()).encode_to_vec());
        assert_eq!(tcp("127.0.0.1:8080"), "0a050d0100007f10903f");
        assert_eq!(tcp("[2001:db8::1]:443"), "0a1412120900000000b80d012011010000000000000010bb03");
        for dialect in [Dialect::Conduit, Dialect::Linkerd] {
            let update = added(&[address("127.0.0.1:8080", 1)], &[], dialect);
            assert_eq!(hex(&update), "0a100a0e0a0a0a050d0100007f10903f1801");
            let heavy = added(&[address("10.1.2.3:80", 10_000)], &[], dialect);
            assert_eq!(hex(&heavy), "0a100a0e0a090a050d0302010a105018904e");
        }
        let mut out = Vec::new();
        remove(&mut out, ["127.0.0.1:8080".parse().unwrap()].into_iter());
        assert_eq!(hex(message(&out)), "120c0a0a0a050d0100007f10903f");
        assert_eq!(hex(message(&no_endpoints(false))), "1a00");
        assert_eq!(hex(message(&no_endpoints(true))), "1a020801");
        assert_eq!(hex(message(&empty_add())), "0a00");
        let labels = set_labels(BTreeMap::from([("namespace".to_owned(), "prod".to_owned())]));
        assert_eq!(hex(&labels), "12110a096e616d657370616365120470726f64");
        let asked = conduit::common::Destination {
            scheme: "k8s".to_owned(),
            path: "web.prod.svc.cluster.local:8080".to_owned(),
        };
        let golden = "0a036b3873121f7765622e70726f642e7376632e636c75737465722e6c6f63616c3a38303830";
        assert_eq!(hex(&asked.encode_to_vec()), golden);
        let asked = linkerd::destination::GetDestination {
            scheme: asked.scheme,
            path: asked.path,
            context_token: String::new(),
        };
        assert_eq!(hex(&asked.encode_to_vec()), golden);
    }

    /// A proxy asks for the server name in the handshake, and compares the certificate with the identity.
    #[test]
    fn a_server_name_of_its_own_stands_beside_the_identity() {
        let told = |identity, server_name| {
            let told = tls_identity(TlsName { identity, server_name });
            let identity = match told.strategy.unwrap() {
                tls_identity::Strategy::DnsLikeIdentity(dns) => dns.name,
                tls_identity::Strategy::UriLikeIdentity(uri) => uri.uri,
            };
            (identity, told.server_name.map(|dns| dns.name))
        };
        for (identity, server_name, expected) in [
            ("web.example", "", Some("web.example")),
            ("web.example", "other.example", Some("other.example")),
            ("spiffe://example/web", "web.example", Some("web.example")),
            ("spiffe://example/web", "", None),
        ] {
            assert_eq!(told(identity, server_name), (identity.to_owned(), expected.map(str::to_owned)));
            // A handshake with a proxy needs the server name.
            assert_eq!(has_proxy(TlsName { identity, server_name }), expected.is_some());
        }
    }

    #[test]
    fn the_encoder_writes_as_the_generated_code_does() {
        use linkerd::destination::{AddrSet, Update, WeightedAddr, WeightedAddrSet, update::Update as Kind};
        let labels = |count: usize| (0..count).map(|n| (format!("label-{n}"), "v".repeat(n * 50))).collect();
        let name = |identity, server_name| TlsName { identity, server_name };
        let identities = [
            TlsName::default(),
            name("web.prod.example", ""),
            name("spiffe://example.org/web", ""),
            name("spiffe://example.org/web", "web.example.org"),
            name("web.prod.example", "other.example"),
        ];
        let addresses: Vec<_> = (0..300_u16)
            .map(|n| {
                let addr =
                    if n % 2 == 0 { format!("10.0.0.1:{}", n + 1) } else { format!("[2001:db8::{n}]:{}", n + 1) };
                Address::new(
                    addr.parse().unwrap(),
                    n.into(),
                    labels(usize::from(n % 5)),
                    identities[usize::from(n % 5)],
                    n.is_multiple_of(7),
                )
            })
            .collect();
        let weighted = |address: &Address, n: u16, dialect| WeightedAddr {
            addr: Some(tcp_address(address.addr)),
            weight: n.into(),
            metric_labels: labels(usize::from(n % 5)),
            tls_identity: Some(identities[usize::from(n % 5)])
                .filter(|name| !name.identity.is_empty() && dialect == Dialect::Linkerd)
                .map(tls_identity),
            protocol_hint: Some(identities[usize::from(n % 5)])
                .filter(|name| has_proxy(*name) && dialect == Dialect::Linkerd)
                .map(|_| protocol_hint(n.is_multiple_of(7))),
            ..WeightedAddr::default()
        };
        for dialect in [Dialect::Conduit, Dialect::Linkerd] {
            let addrs = addresses.iter().zip(0..).map(|(address, n)| weighted(address, n, dialect)).collect();
            let set = WeightedAddrSet { addrs, metric_labels: labels(3) };
            let mut out = Vec::new();
            add(&mut out, dialect, addresses.iter(), &set_labels(labels(3)));
            assert!(message(&out) == Update { update: Some(Kind::Add(set)) }.encode_to_vec());
            if dialect == Dialect::Conduit {
                let old = conduit::proxy::destination::Update::decode(message(&out)).unwrap();
                assert!(old.encode_to_vec() == message(&out), "an old client knows every field");
            }
        }
        let gone = addresses.iter().map(|address| tcp_address(address.addr)).collect();
        let mut out = Vec::new();
        remove(&mut out, addresses.iter().map(|address| address.addr));
        assert!(message(&out) == Update { update: Some(Kind::Remove(AddrSet { addrs: gone })) }.encode_to_vec());
    }
}
