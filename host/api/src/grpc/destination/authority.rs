//! Parses targets: `name.namespace.svc[.zone][:port]`, or `instance.name.namespace.svc[.zone][:port]` for one workload
//! of a service.
//!
//! The zone is the configured one, `cluster.local`, or omitted; a dot may follow, as in DNS. Labels have 1 to 63
//! letters, digits, dashes and underscores, without a dash at either end. Case counts: a service whose name no resource
//! can have does not exist, and asking for it is not an error.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mortise_resource::{Error, name};

use crate::{
    call::truncate,
    linkerd::{
        net,
        outbound::{TrafficSpec, traffic_spec},
    },
};

/// The port of a target without a port.
const DEFAULT_PORT: u16 = 80;

/// The zone that is always accepted.
const CLUSTER_ZONE: &str = "cluster.local";

/// The only scheme; it may be omitted.
const SCHEME: &str = "k8s";

/// Most bytes of a target that errors quote.
const MAX_QUOTED_BYTES: usize = 300;

/// A service and the selected addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) service: ServiceName,
    pub(super) selection: Selection,
}

/// A service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ServiceName {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The selected addresses of a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Selection {
    pub(super) port: u16,
    /// The name of a workload.
    pub(super) instance: Option<String>,
}

/// The target of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Service(Authority),
    Address(SocketAddr),
}

impl Authority {
    /// The full name, without the port.
    pub(super) fn host(&self, zone: &str) -> String {
        let ServiceName { namespace, name } = &self.service;
        match &self.selection.instance {
            None => format!("{name}.{namespace}.svc.{zone}"),
            Some(instance) => format!("{instance}.{name}.{namespace}.svc.{zone}"),
        }
    }

    /// The path that Get understands.
    pub(super) fn path(&self, zone: &str) -> String {
        format!("{}:{}", self.host(zone), self.selection.port)
    }

    /// Another service of the namespace.
    pub(super) fn beside(&self, name: &str, port: u16) -> Self {
        let namespace = self.service.namespace.clone();
        let service = ServiceName { namespace, name: name.to_owned() };
        Self { service, selection: Selection { port, instance: None } }
    }
}

impl ServiceName {
    /// Whether a service can have this name.
    pub(super) fn is_possible(&self) -> bool {
        name::is_valid(&self.name) && name::is_valid(&self.namespace)
    }
}

/// Parses the target of Get.
///
/// # Errors
/// `InvalidArgument` for scheme, form or port, with the expected form.
pub(super) fn authority(scheme: &str, path: &str, zone: &str) -> Result<Authority, Error> {
    match target(scheme, path, zone)? {
        Target::Service(authority) => Ok(authority),
        Target::Address(address) => Err(Error::invalid(format!(
            "path {address} is an address, not a name; write name.namespace.svc.{zone}:port"
        ))),
    }
}

/// Parses the target of GetProfile.
///
/// # Errors
/// Those of [`authority`], except that an address is accepted.
pub(super) fn target(scheme: &str, path: &str, zone: &str) -> Result<Target, Error> {
    if !scheme.is_empty() && scheme != SCHEME {
        let scheme = truncate(scheme, MAX_QUOTED_BYTES);
        return Err(Error::invalid(format!("scheme {scheme:?} is unknown; write {SCHEME} or leave it empty")));
    }
    let malformed = |fault: &str| {
        let path = truncate(path, MAX_QUOTED_BYTES);
        Error::invalid(format!("path {path:?} {fault}; write name.namespace.svc.{zone}:port"))
    };
    if let Some(address) = address(path).filter(|address| address.port() > 0) {
        return Ok(Target::Address(address));
    }
    let (host, port) = match path.split_once(':') {
        None => (path, DEFAULT_PORT),
        Some((host, port)) => {
            let number = port.bytes().all(|b| b.is_ascii_digit()).then(|| port.parse().ok()).flatten();
            let number = number.filter(|port| *port > 0);
            (host, number.ok_or_else(|| malformed("has a port that is not a number from 1 to 65535"))?)
        }
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let name = [zone, CLUSTER_ZONE].iter().find_map(|zone| host.strip_suffix(zone)?.strip_suffix('.'));
    let name = name.unwrap_or(host).strip_suffix(".svc").ok_or_else(|| malformed("is not the name of a service"))?;
    let labels: Vec<&str> = name.split('.').collect();
    if !labels.iter().all(|label| is_label(label)) {
        return Err(malformed("has a part that is not 1 to 63 letters, digits, dashes and underscores"));
    }
    let (instance, service, namespace) = match labels.as_slice() {
        [service, namespace] => (None, service, namespace),
        [instance, service, namespace] => (Some((*instance).to_owned()), service, namespace),
        _ => return Err(malformed("is not the name of a service")),
    };
    Ok(Target::Service(Authority {
        service: ServiceName { namespace: (*namespace).to_owned(), name: (*service).to_owned() },
        selection: Selection { port, instance },
    }))
}

/// Parses the target of a policy.
///
/// # Errors
/// `InvalidArgument`: no target, or an address without its parts. `NotFound`: an authority that is not the name of a
/// service; a proxy then asks for the profile, and would close the connection after InvalidArgument.
pub(super) fn traffic_target(spec: &TrafficSpec, zone: &str) -> Result<Target, Error> {
    match &spec.target {
        Some(traffic_spec::Target::Authority(path)) => {
            target("", path, zone).map_err(|error| Error::not_found(error.message))
        }
        Some(traffic_spec::Target::Addr(addr)) => socket_addr(addr).map(Target::Address).ok_or_else(|| {
            Error::invalid("addr is not an IP address with a port from 1 to 65535; fill in both, or set authority")
        }),
        None => Err(Error::invalid("a target is required; set addr or authority")),
    }
}

/// An address in a message; `None` without an IP address or a port.
fn socket_addr(addr: &net::TcpAddress) -> Option<SocketAddr> {
    let ip = match addr.ip.as_ref()?.ip.as_ref()? {
        net::ip_address::Ip::Ipv4(ip) => IpAddr::V4(Ipv4Addr::from_bits(*ip)),
        net::ip_address::Ip::Ipv6(ip) => {
            IpAddr::V6(Ipv6Addr::from_bits(u128::from(ip.first) << 64 | u128::from(ip.last)))
        }
    };
    Some(SocketAddr::new(ip, u16::try_from(addr.port).ok().filter(|port| *port > 0)?))
}

/// Parses the path as an address, with or without a port.
fn address(path: &str) -> Option<SocketAddr> {
    if let Ok(address) = path.parse() {
        return Some(address);
    }
    let bare = path.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(path);
    bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, DEFAULT_PORT))
}

fn is_label(label: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    (1..=name::MAX_NAME_BYTES).contains(&label.len())
        && label.bytes().all(is_part)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: &str = "mesh.example";

    fn read(path: &str) -> Option<(Option<String>, String, String, u16)> {
        let Authority { service, selection } = authority("k8s", path, ZONE).ok()?;
        Some((selection.instance, service.name, service.namespace, selection.port))
    }

    fn expected(
        instance: Option<&str>,
        name: &str,
        namespace: &str,
        port: u16,
    ) -> Option<(Option<String>, String, String, u16)> {
        Some((instance.map(str::to_owned), name.to_owned(), namespace.to_owned(), port))
    }

    #[test]
    fn names_have_a_zone_or_none_a_dot_or_none_and_a_port_or_80() {
        for zone in ["", ".mesh.example", ".cluster.local"] {
            for dot in ["", "."] {
                for (port, number) in [("", 80), (":80", 80), (":1", 1), (":65535", 65_535)] {
                    let tail = format!("svc{zone}{dot}{port}");
                    assert_eq!(read(&format!("web.prod.{tail}")), expected(None, "web", "prod", number), "{tail}");
                    let workload = expected(Some("web-1"), "web", "prod", number);
                    assert_eq!(read(&format!("web-1.web.prod.{tail}")), workload, "{tail}");
                }
            }
        }
        assert_eq!(read("i.s.svc.svc.cluster.local"), expected(Some("i"), "s", "svc", 80));
        assert_eq!(read("svc.svc.svc"), expected(None, "svc", "svc", 80));
        assert_eq!(read("Web_1.prod.svc"), expected(None, "Web_1", "prod", 80));
        assert!(authority("", "web.prod.svc", ZONE).is_ok(), "new clients say no scheme");
    }

    #[test]
    fn everything_else_is_refused_with_what_to_write() {
        let long = format!("{}.prod.svc", "x".repeat(64));
        let wrong = [
            "",
            ".",
            ":80",
            "web",
            "web.prod",
            "web.svc",
            "web.prod.pod",
            "web.prod.svc..",
            "web.prod.svc.cluster.local..",
            "web.prod.svc.elsewhere",
            "web.prod.svc.local",
            "a.b.web.prod.svc",
            "svc.cluster.local",
            ".svc",
            "web..svc",
            ".prod.svc",
            "-web.prod.svc",
            "web-.prod.svc",
            "wéb.prod.svc",
            "we b.prod.svc",
            "*.prod.svc",
            "web.prod.svc:",
            "web.prod.svc:0",
            "web.prod.svc:65536",
            "web.prod.svc:-1",
            "web.prod.svc:+1",
            "web.prod.svc:http",
            "web.prod.svc:80:80",
            "web.prod.svc: 80",
            "10.1.2.3",
            "10.1.2.3:80",
            "::1",
            "[::1]",
            "[::1]:80",
            "web.prod.svc.MESH.example",
            &long,
        ];
        for path in wrong {
            let text = authority("k8s", path, ZONE).expect_err(path).message;
            assert!(text.ends_with("; write name.namespace.svc.mesh.example:port"), "{path}: {text}");
        }
        for scheme in ["dns", "K8S", "http"] {
            let text = authority(scheme, "web.prod.svc", ZONE).expect_err(scheme).message;
            assert_eq!(text, format!("scheme {scheme:?} is unknown; write k8s or leave it empty"));
        }
        let text = authority("k8s", &"x".repeat(100_000), ZONE).expect_err("too long").message;
        assert!(text.len() < 500, "{}", text.len());
    }

    #[test]
    fn profiles_are_of_addresses_too() {
        let parse = |path| target("", path, ZONE).ok();
        for (path, address) in [
            ("10.1.2.3:8080", "10.1.2.3:8080"),
            ("10.1.2.3", "10.1.2.3:80"),
            ("[2001:db8::1]:443", "[2001:db8::1]:443"),
            ("2001:db8::1", "[2001:db8::1]:80"),
            ("[::1]", "[::1]:80"),
        ] {
            assert_eq!(parse(path), Some(Target::Address(address.parse().unwrap())), "{path}");
        }
        for path in ["10.1.2.3:x", "10.1.2.3:0", "[::1]:0", "[::1]:65536"] {
            assert_eq!(parse(path), None, "{path}");
        }
    }
}
