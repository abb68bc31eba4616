//! The policy of a port, from its Workload.
//!
//! A proxy refuses every connection to a port whose policy lacks a field that it needs: the timeout of a detection, the
//! name among the labels, and networks, authentication and metadata of each permission. So each is always there.

use std::net::IpAddr;

use super::workload::WorkloadName;
use crate::{
    catalog::{InboundRule, Protocol, Workload},
    grpc::destination::ip_address,
    linkerd::{
        inbound::{
            Authn, Authz, Identity, IdentitySuffix, Network, ProxyProtocol, Server,
            authn::{
                Permit, PermitMeshTls, PermitUnauthenticated,
                permit_mesh_tls::{Clients, PermitClientIdentities},
            },
            proxy_protocol::{Detect, Grpc, Http1, Http2, Kind, Opaque},
        },
        meta::{Metadata, Resource, metadata},
        net::IpNetwork,
    },
};

/// The port of a proxy's metrics and probes. Probes have no identity.
const ADMIN_PORT: u16 = 4191;

/// Longest time for the first bytes of a connection whose protocol is unknown, seconds.
const DETECT_TIMEOUT_SECONDS: i64 = 10;

/// The name of the policy without permissions of a Workload.
const DEFAULT_POLICY: &str = "all-unauthenticated";

/// Origin of permissions from a Workload.
const GROUP: &str = "catalog";
const KIND: &str = "Workload";

/// Labels of an origin.
const GROUP_LABEL: &str = "group";
const KIND_LABEL: &str = "kind";
const NAME_LABEL: &str = "name";

/// The policy of a port.
pub(super) fn policy(name: &WorkloadName, workload: &Workload, port: u16) -> Server {
    let known = workload.ports.iter().find(|known| known.port == u32::from(port));
    let kind =
        known.map_or_else(detect, |known| if known.opaque { Kind::Opaque(Opaque {}) } else { kind(known.protocol()) });
    let rules = rules_for(workload, port);
    let origin = match rules.is_empty() {
        true => Origin { name: DEFAULT_POLICY, resource: None },
        false => Origin { name: &name.name, resource: Some(&name.namespace) },
    };
    let authorizations = match rules.is_empty() {
        true => vec![authorization(&InboundRule::default(), &origin, port)],
        false => rules.into_iter().map(|rule| authorization(rule, &origin, port)).collect(),
    };
    Server {
        protocol: Some(ProxyProtocol { kind: Some(kind) }),
        server_ips: Vec::new(),
        authorizations,
        labels: origin.labels(),
    }
}

/// The permissions of a port: its own, or else those of all ports.
fn rules_for(workload: &Workload, port: u16) -> Vec<&InboundRule> {
    if port == ADMIN_PORT {
        return Vec::new();
    }
    let known = workload.ports.iter().find(|known| known.port == u32::from(port));
    let is_number = |text: &str| text.parse() == Ok(port);
    let is_own = |rule: &&InboundRule| is_number(&rule.port) || known.is_some_and(|known| known.name == rule.port);
    let own: Vec<_> = workload.inbound.iter().filter(is_own).collect();
    match own.is_empty() {
        true => workload.inbound.iter().filter(|rule| rule.port.is_empty()).collect(),
        false => own,
    }
}

fn detect() -> Kind {
    let timeout = prost_types::Duration { seconds: DETECT_TIMEOUT_SECONDS, nanos: 0 };
    Kind::Detect(Detect { timeout: Some(timeout) })
}

fn kind(protocol: Protocol) -> Kind {
    match protocol {
        Protocol::Unspecified | Protocol::Tcp => detect(),
        Protocol::Http => Kind::Http1(Http1 {}),
        Protocol::Http2 => Kind::Http2(Http2 {}),
        Protocol::Grpc => Kind::Grpc(Grpc {}),
    }
}

/// Origin of a policy.
struct Origin<'n> {
    name: &'n str,
    /// Namespace of the Workload; `None` for the default policy.
    resource: Option<&'n str>,
}

impl Origin<'_> {
    fn labels(&self) -> std::collections::BTreeMap<String, String> {
        let (group, kind) = if self.resource.is_some() { (GROUP, KIND) } else { ("", "default") };
        let labels = [(GROUP_LABEL, group), (KIND_LABEL, kind), (NAME_LABEL, self.name)];
        labels.map(|(label, value)| (label.to_owned(), value.to_owned())).into()
    }

    fn metadata(&self, port: u16) -> Metadata {
        let kind = match self.resource {
            None => metadata::Kind::Default(self.name.to_owned()),
            Some(namespace) => metadata::Kind::Resource(Resource {
                group: GROUP.to_owned(),
                kind: KIND.to_owned(),
                name: self.name.to_owned(),
                namespace: namespace.to_owned(),
                section: String::new(),
                port: port.into(),
            }),
        };
        Metadata { kind: Some(kind) }
    }
}

fn authorization(rule: &InboundRule, origin: &Origin<'_>, port: u16) -> Authz {
    const ALL: [&str; 2] = ["0.0.0.0/0", "::/0"];
    let networks = match rule.networks.is_empty() {
        true => ALL.into_iter().filter_map(network).collect(),
        // The plugin has checked them; any other text admits no client.
        false => rule.networks.iter().filter_map(|text| network(text)).collect(),
    };
    Authz {
        networks,
        authentication: Some(Authn { permit: Some(permit(rule)) }),
        labels: origin.labels(),
        metadata: Some(origin.metadata(port)),
    }
}

fn permit(rule: &InboundRule) -> Permit {
    if !rule.mesh_only && rule.identities.is_empty() {
        return Permit::Unauthenticated(PermitUnauthenticated {});
    }
    let (mut identities, mut suffixes) = (Vec::new(), Vec::new());
    for identity in &rule.identities {
        match identity.strip_prefix("*.") {
            Some(domain) => {
                suffixes.push(IdentitySuffix { parts: domain.split('.').map(str::to_owned).collect() });
            }
            None => identities.push(Identity { name: identity.clone() }),
        }
    }
    if rule.mesh_only {
        // The end of every identity.
        suffixes.push(IdentitySuffix { parts: Vec::new() });
    }
    let clients = Clients::Identities(PermitClientIdentities { identities, suffixes });
    Permit::MeshTls(PermitMeshTls { clients: Some(clients) })
}

fn network(text: &str) -> Option<Network> {
    let (ip, length) = text.split_once('/').map_or((text, None), |(ip, length)| (ip, Some(length)));
    let ip: IpAddr = ip.parse().ok()?;
    let whole = if ip.is_ipv4() { 32 } else { 128 };
    let prefix_len = length.map_or(Some(whole), |length| length.parse().ok()).filter(|length| *length <= whole)?;
    Some(Network { net: Some(IpNetwork { ip: Some(ip_address(ip)), prefix_len }), except: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::WorkloadPort;

    fn name() -> WorkloadName {
        WorkloadName { namespace: "default".to_owned(), name: "web-1".to_owned() }
    }

    fn workload(inbound: Vec<InboundRule>) -> Workload {
        let port = |name: &str, port, protocol: Protocol| WorkloadPort {
            name: name.into(),
            port,
            protocol: protocol.into(),
            opaque: name == "opaque",
        };
        let ports = vec![
            port("raw", 1, Protocol::Tcp),
            port("http", 2, Protocol::Http),
            port("h2", 3, Protocol::Http2),
            port("grpc", 4, Protocol::Grpc),
            port("opaque", 5, Protocol::Tcp),
        ];
        Workload { ports, inbound, ..Workload::default() }
    }

    /// Checks that a policy has every field that a proxy needs.
    fn complete(server: &Server) {
        match server.protocol.as_ref().and_then(|protocol| protocol.kind.as_ref()).expect("a protocol") {
            Kind::Detect(detect) => assert_eq!(detect.timeout.expect("a timeout").seconds, 10),
            Kind::Opaque(_) | Kind::Tls(_) | Kind::Http1(_) | Kind::Http2(_) | Kind::Grpc(_) => {}
        }
        assert!(!server.labels.get("name").expect("a name").is_empty());
        assert!(!server.authorizations.is_empty());
        for permission in &server.authorizations {
            assert!(!permission.networks.is_empty() && permission.networks.iter().all(|one| one.net.is_some()));
            let permit = permission.authentication.as_ref().and_then(|authn| authn.permit.as_ref()).expect("a permit");
            assert!(!matches!(permit, Permit::MeshTls(PermitMeshTls { clients: None })));
            assert_eq!(permission.labels, server.labels);
            match permission.metadata.as_ref().and_then(|metadata| metadata.kind.as_ref()).expect("metadata") {
                metadata::Kind::Default(name) => assert!(!name.is_empty()),
                metadata::Kind::Resource(Resource { group, kind, name, namespace, .. }) => {
                    assert!([group, kind, name, namespace].into_iter().all(|text| !text.is_empty()));
                }
            }
        }
    }

    #[test]
    fn the_protocol_is_that_of_the_port() {
        let workload = workload(Vec::new());
        let kind = |port| {
            let server = policy(&name(), &workload, port);
            complete(&server);
            server.protocol.and_then(|protocol| protocol.kind)
        };
        assert!(matches!(kind(1), Some(Kind::Detect(_))) && matches!(kind(9), Some(Kind::Detect(_))));
        assert!(matches!(kind(2), Some(Kind::Http1(_))));
        assert!(matches!(kind(3), Some(Kind::Http2(_))));
        assert!(matches!(kind(4), Some(Kind::Grpc(_))) && matches!(kind(5), Some(Kind::Opaque(_))));
        complete(&policy(&name(), &Workload::default(), 2));
    }

    #[test]
    fn permissions_of_a_port_come_before_those_of_all_and_the_admin_port_is_open() {
        let rule = |port: &str, identity: &str| InboundRule {
            port: port.into(),
            identities: vec![identity.into()],
            ..InboundRule::default()
        };
        let mesh = InboundRule { mesh_only: true, networks: vec!["10.0.0.0/8".into()], ..InboundRule::default() };
        let workload = workload(vec![mesh, rule("http", "a.mesh"), rule("2", "*.b.mesh")]);
        let permits = |port| {
            let server = policy(&name(), &workload, port);
            complete(&server);
            let authz = server.authorizations.into_iter();
            authz.map(|one| (one.networks.len(), one.authentication.and_then(|authn| authn.permit))).collect::<Vec<_>>()
        };
        let clients = |names: &[&str], suffixes: &[&[&str]]| {
            let identities = names.iter().map(|name| Identity { name: (*name).to_owned() }).collect();
            let parts =
                |parts: &&[&str]| IdentitySuffix { parts: parts.iter().map(|part| (*part).to_owned()).collect() };
            let suffixes = suffixes.iter().map(parts).collect();
            let clients = Some(Clients::Identities(PermitClientIdentities { identities, suffixes }));
            Some(Permit::MeshTls(PermitMeshTls { clients }))
        };
        assert_eq!(permits(2), [(2, clients(&["a.mesh"], &[])), (2, clients(&[], &[&["b", "mesh"]]))]);
        assert_eq!(permits(3), [(1, clients(&[], &[&[]]))]);
        assert_eq!(permits(9), permits(3));
        assert_eq!(permits(4191), [(2, Some(Permit::Unauthenticated(PermitUnauthenticated {})))]);
    }

    #[test]
    fn networks_have_their_lengths() {
        let of = |text: &str| network(text).and_then(|network| network.net).map(|net| net.prefix_len);
        assert_eq!((of("10.0.0.0/8"), of("192.0.2.1"), of("::/0"), of("::1")), (Some(8), Some(32), Some(0), Some(128)));
        assert_eq!((of("10.0.0.0/33"), of("a/8"), of("::/129")), (None, None, None));
    }
}
