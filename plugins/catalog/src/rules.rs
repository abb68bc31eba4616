//! Rules for the contents of services and workloads. Each fault has the path of its field.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use mortise_plugin::{Diagnostics, Path, Typed, field, name};

use crate::proto::catalog::v1::{Protocol, Selector, Service, ServicePort, Workload};

mod checks;
mod inbound;

/// Most ports of a service and of a workload.
const MAX_PORTS: usize = 64;
/// Most names and most prefixes of a selector.
const NAMES: usize = 256;
const PREFIXES: usize = 64;
/// Prefix that selects every name. An empty prefix would not do: no index has an empty text.
pub(crate) const EVERY_NAME: &str = "*";
/// Most labels of a resource; most bytes of their keys and values.
const MAX_LABELS: usize = 32;
const MAX_LABEL_KEY_BYTES: usize = 63;
const MAX_LABEL_VALUE_BYTES: usize = 253;
/// Labels that every endpoint gets automatically.
const ENDPOINT_LABELS: [&str; 2] = ["workload", "zone"];
/// Most addresses of a workload.
const MAX_ADDRESSES: usize = 16;
/// Most checks of a workload, and the longest name of one, which is part of its status's key.
const MAX_CHECKS: usize = 16;
const MAX_CHECK_NAME_CHARACTERS: usize = 40;
/// Most bytes of a zone, an identity, the path of an HTTP check, and a check's CA.
const ZONE: usize = 63;
const MAX_IDENTITY_BYTES: usize = 253;
const MAX_HTTP_PATH_BYTES: usize = 1024;
const MAX_CA_BYTES: usize = 64 << 10;
/// Longest time to live of a service's records in DNS.
const MAX_DNS_TTL_SECONDS: i64 = 3_600;
/// The greatest weight: that of DNS.
const WEIGHT: u32 = 65_535;

/// A value that breaks a rule. Texts from the resource are cut to a length that fits a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RuleError {
    #[error("at most {most} are allowed, got {got}")]
    TooMany { most: usize, got: usize },
    #[error("{0}")]
    Name(String),
    #[error("{0} is a duplicate; remove it")]
    Duplicate(String),
    #[error("a port is a number from 1 to 65535, got {0}")]
    Port(u32),
    #[error("a port is the name of one of the workload's ports, or a number from 1 to 65535; got {0}")]
    PortText(String),
    #[error("the workload has no port {0}; its ports are {1}")]
    NoPort(String, String),
    #[error("the port is required, since the workload does not have exactly one")]
    WhichPort,
    #[error("this plugin does not know the protocol {0}")]
    Protocol(i32),
    #[error("an address is an IPv4 or IPv6 address or a DNS name in lower case, without a port; got {0}")]
    Host(String),
    #[error("a workload needs an address, such as 192.0.2.1")]
    NoAddress,
    #[error("a weight is 1 to {WEIGHT}, got {0}")]
    Weight(u32),
    #[error(
        "a label's key is 1 to {MAX_LABEL_KEY_BYTES} letters, digits and _ . - /, and begins with a letter or _; got {0}"
    )]
    LabelKey(String),
    #[error("the label {0} is reserved; use another key")]
    ReservedLabel(String),
    #[error("a text may have at most {most} bytes and no control characters; got {got}")]
    Text { most: usize, got: String },
    #[error("an identity is a DNS name in lower case, or a SPIFFE ID such as spiffe://example.org/web; got {0}")]
    Identity(String),
    #[error("an identity that is a SPIFFE ID needs a server_name, or clients would speak to the workload without TLS")]
    NoServerName,
    #[error("a server name is a DNS name in lower case, and belongs to an identity; got {0}")]
    ServerName(String),
    #[error("a selector needs a name, a prefix or a label; the prefix * is every workload")]
    EmptySelector,
    #[error(
        "a prefix is the beginning of a name (lower-case letters, digits and -, and no - at first), or * for every name; got {0}"
    )]
    Prefix(String),
    #[error("a check's name has at most {MAX_CHECK_NAME_CHARACTERS} characters, got {0}")]
    CheckName(usize),
    #[error("a check needs one of ttl, http, tcp and grpc")]
    NoCheck,
    #[error("{from} to {to} is allowed, got {got}")]
    Number { from: u32, to: u32, got: u32 },
    #[error("a method is 1 to 20 upper-case letters, and not CONNECT; got {0}")]
    Method(String),
    #[error("a header is a name of letters, digits and dashes with a value of visible ASCII characters; got {0}")]
    Header(String),
    #[error("statuses are 100 to 599, and end where they begin or later; got {0} to {1}")]
    Statuses(u32, u32),
    #[error("the CA is a list of certificates in PEM, and has at most {MAX_CA_BYTES} bytes")]
    Ca,
    #[error("only a check over https has this; remove it")]
    OnlyHttps,
    #[error("{from:?} to {to:?} is allowed, got {got}")]
    Duration { from: Duration, to: Duration, got: String },
    #[error("a time to live is whole seconds, 0s to 3600s; got {0}")]
    DnsTtl(String),
    #[error("a check by ttl has no {0}; remove it")]
    NotForTtl(&'static str),
    #[error("a path begins with a slash and has at most {MAX_HTTP_PATH_BYTES} visible ASCII characters; got {0}")]
    Path(String),
    #[error("a scheme is http or https, got {0}")]
    Scheme(String),
    #[error("a network is an address with a prefix length, such as 10.0.0.0/8, and no further bits; got {0}")]
    Network(String),
    #[error("mesh_only is any identity, so it has no list of them; remove one of the two")]
    AnyIdentity,
    #[error("port 4191 is that of the proxy's metrics and probes, which is open to everyone; remove the permission")]
    AdminPort,
}

/// Checks a Service, defaults filled in.
pub(crate) fn service(service: &Typed<Service>, _: Option<&Typed<Service>>, diagnostics: &mut Diagnostics) {
    let mut findings = Findings(diagnostics);
    if let Some(selector) = &service.data.selector {
        check_selector(selector, &mut findings);
    }
    check_service_ports(&service.data.ports, &mut findings);
    check_labels(&service.data.labels, &["namespace", "service"], &field("labels"), &mut findings);
    if let Some(ttl) = &service.data.dns_ttl {
        findings.note(dns_ttl(ttl), || field("dns_ttl"));
    }
}

/// Checks a Workload, defaults filled in.
pub(crate) fn workload(workload: &Typed<Workload>, _: Option<&Typed<Workload>>, diagnostics: &mut Diagnostics) {
    let data = &workload.data;
    let mut findings = Findings(diagnostics);
    check_workload_ports(data, &mut findings);
    check_addresses(data, &mut findings);
    findings.note(in_range(data.weight, 1, WEIGHT, RuleError::Weight), || field("weight"));
    check_labels(&data.labels, &ENDPOINT_LABELS, &field("labels"), &mut findings);
    findings.note(text(&data.zone, ZONE), || field("zone"));
    findings.note(identity(&data.identity), || field("identity"));
    findings.note(server_name(data), || field("server_name"));
    inbound::check(data, &mut findings);
    let checks = field("checks");
    if findings.bound(data.checks.len(), MAX_CHECKS, &checks) {
        let mut names = Seen::default();
        for (check, place) in places(&data.checks, &checks) {
            findings.note(names.once(&check.name), || place.clone().field("name"));
            checks::check(check, data, &place, &mut findings);
        }
    }
}

fn check_selector(selector: &Selector, findings: &mut Findings<'_>) {
    let place = || field("selector");
    if selector.names.is_empty() && selector.prefixes.is_empty() && selector.labels.is_empty() {
        findings.add(RuleError::EmptySelector, place());
    }
    let names = place().field("names");
    if findings.bound(selector.names.len(), NAMES, &names) {
        let mut seen = Seen::default();
        for (one, place) in places(&selector.names, &names) {
            findings.note(resource_name(one).and_then(|()| seen.once(one)), || place);
        }
    }
    let prefixes = place().field("prefixes");
    if findings.bound(selector.prefixes.len(), PREFIXES, &prefixes) {
        let mut seen = Seen::default();
        for (one, place) in places(&selector.prefixes, &prefixes) {
            findings.note(prefix(one).and_then(|()| seen.once(one)), || place);
        }
    }
    let labels = place().field("labels");
    if findings.bound(selector.labels.len(), MAX_LABELS, &labels) {
        for key in selector.labels.keys().filter(|key| key.is_empty()) {
            findings.add(RuleError::LabelKey(shown(key)), labels.clone().key(key));
        }
    }
}

fn check_service_ports(ports: &[ServicePort], findings: &mut Findings<'_>) {
    let all = field("ports");
    if !findings.bound(ports.len(), MAX_PORTS, &all) {
        return;
    }
    let (mut names, mut numbers) = (Seen::default(), Seen::default());
    for (port, place) in places(ports, &all) {
        findings.note(resource_name(&port.name).and_then(|()| names.once(&port.name)), || place.clone().field("name"));
        let number = port_number(port.port).and_then(|()| numbers.once(&port.port));
        findings.note(number, || place.clone().field("port"));
        let target = match port.target_port.parse::<u32>() {
            Ok(number) => port_number(number),
            Err(_) => resource_name(&port.target_port),
        };
        findings.note(target, || place.clone().field("target_port"));
        findings.note(protocol(port.protocol), || place.clone().field("protocol"));
    }
}

fn check_workload_ports(data: &Workload, findings: &mut Findings<'_>) {
    let all = field("ports");
    if !findings.bound(data.ports.len(), MAX_PORTS, &all) {
        return;
    }
    let (mut names, mut numbers) = (Seen::default(), Seen::default());
    for (port, place) in places(&data.ports, &all) {
        findings.note(resource_name(&port.name).and_then(|()| names.once(&port.name)), || place.clone().field("name"));
        let number = port_number(port.port).and_then(|()| numbers.once(&port.port));
        findings.note(number, || place.clone().field("port"));
        findings.note(protocol(port.protocol), || place.clone().field("protocol"));
    }
}

fn check_addresses(data: &Workload, findings: &mut Findings<'_>) {
    let all = field("addresses");
    if data.addresses.is_empty() {
        findings.add(RuleError::NoAddress, all.clone());
    }
    if !findings.bound(data.addresses.len(), MAX_ADDRESSES, &all) {
        return;
    }
    let mut hosts = Seen::default();
    for (address, place) in places(&data.addresses, &all) {
        let judged = host(&address.host).and_then(|()| hosts.once(&address.host));
        findings.note(judged, || place.clone().field("host"));
        let ports = place.field("ports");
        if findings.bound(address.ports.len(), MAX_PORTS, &ports) {
            let mut names = Seen::default();
            for (one, place) in places(&address.ports, &ports) {
                findings.note(known_port(one, data).and_then(|()| names.once(one)), || place);
            }
        }
    }
}

fn check_labels(labels: &BTreeMap<String, String>, reserved: &[&str], place: &Path, findings: &mut Findings<'_>) {
    if !findings.bound(labels.len(), MAX_LABELS, place) {
        return;
    }
    for (key, value) in labels {
        let at = || place.clone().key(key);
        findings.note(label_key(key), at);
        if reserved.contains(&key.as_str()) {
            findings.add(RuleError::ReservedLabel(key.clone()), at());
        }
        findings.note(text(value, MAX_LABEL_VALUE_BYTES), at);
    }
}

/// Collector of faults.
struct Findings<'d>(&'d mut Diagnostics);

impl Findings<'_> {
    fn add(&mut self, error: RuleError, place: Path) {
        self.0.error(error.to_string()).at(place);
    }

    fn note(&mut self, judged: Result<(), RuleError>, place: impl FnOnce() -> Path) {
        if let Err(error) = judged {
            self.add(error, place());
        }
    }

    /// Adds a fault if there are too many; answers whether the number is allowed.
    fn bound(&mut self, got: usize, most: usize, place: &Path) -> bool {
        if got > most {
            self.add(RuleError::TooMany { most, got }, place.clone());
        }
        got <= most
    }
}

/// Values seen so far, for finding duplicates.
#[derive(Default)]
struct Seen(std::collections::BTreeSet<String>);

impl Seen {
    fn once(&mut self, one: &impl ToString) -> Result<(), RuleError> {
        let text = one.to_string();
        if self.0.insert(text.clone()) { Ok(()) } else { Err(RuleError::Duplicate(shown(&text))) }
    }
}

/// Each item, with its path.
fn places<'i, T>(items: &'i [T], all: &Path) -> impl Iterator<Item = (&'i T, Path)> {
    items.iter().zip(0_u32..).map(|(item, index)| (item, all.clone().index(index)))
}

fn dns_ttl(ttl: &prost_types::Duration) -> Result<(), RuleError> {
    if (0..=MAX_DNS_TTL_SECONDS).contains(&ttl.seconds) && ttl.nanos == 0 {
        return Ok(());
    }
    Err(RuleError::DnsTtl(format!("{}.{:09}s", ttl.seconds, ttl.nanos.unsigned_abs())))
}

fn in_range(value: u32, from: u32, to: u32, error: fn(u32) -> RuleError) -> Result<(), RuleError> {
    if (from..=to).contains(&value) { Ok(()) } else { Err(error(value)) }
}

fn port_number(number: u32) -> Result<(), RuleError> {
    in_range(number, 1, u16::MAX.into(), RuleError::Port)
}

fn protocol(number: i32) -> Result<(), RuleError> {
    Protocol::try_from(number).map(drop).map_err(|_| RuleError::Protocol(number))
}

fn resource_name(text: &str) -> Result<(), RuleError> {
    name::fault(text).map_or(Ok(()), |fault| Err(RuleError::Name(fault)))
}

/// An IP address, or a DNS name that resolvers do not take for one.
fn host(text: &str) -> Result<(), RuleError> {
    if text.parse::<IpAddr>().is_ok() || is_server_name(text) {
        return Ok(());
    }
    Err(RuleError::Host(shown(text)))
}

fn known_port(port: &str, data: &Workload) -> Result<(), RuleError> {
    if data.ports.iter().any(|one| one.name == port) {
        return Ok(());
    }
    let known = data.ports.iter().take(MAX_PORTS).map(|one| shown(&one.name)).collect::<Vec<_>>();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(RuleError::NoPort(shown(port), known))
}

fn prefix(text: &str) -> Result<(), RuleError> {
    // A prefix of a valid name is valid with a letter after it.
    if text == EVERY_NAME || (!text.is_empty() && name::is_valid(&format!("{text}a"))) {
        return Ok(());
    }
    Err(RuleError::Prefix(shown(text)))
}

fn label_key(key: &str) -> Result<(), RuleError> {
    let begins = key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let fits = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte));
    if begins && fits && key.len() <= MAX_LABEL_KEY_BYTES { Ok(()) } else { Err(RuleError::LabelKey(shown(key))) }
}

fn text(text: &str, most: usize) -> Result<(), RuleError> {
    if text.len() <= most && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(RuleError::Text { most, got: shown(text) })
}

/// Beginning of a SPIFFE ID.
const SPIFFE: &str = "spiffe://";

/// A DNS name, or a SPIFFE ID: clients know no other identities, and speak without TLS to a workload that has one.
fn identity(text: &str) -> Result<(), RuleError> {
    let is_spiffe = text.strip_prefix(SPIFFE).is_some_and(|rest| {
        let (domain, path) = rest.split_once('/').map_or((rest, "a"), |(domain, path)| (domain, path));
        let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_segment = |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(plain);
        !domain.is_empty() && domain.bytes().all(lower) && path.split('/').all(is_segment)
    });
    if text.is_empty() || (text.len() <= MAX_IDENTITY_BYTES && (is_spiffe || is_server_name(text))) {
        return Ok(());
    }
    Err(RuleError::Identity(shown(text)))
}

fn server_name(data: &Workload) -> Result<(), RuleError> {
    match (data.identity.as_str(), data.server_name.as_str()) {
        (identity, "") if identity.starts_with(SPIFFE) => Err(RuleError::NoServerName),
        (_, "") => Ok(()),
        (identity, name) if !identity.is_empty() && is_server_name(name) => Ok(()),
        (_, name) => Err(RuleError::ServerName(shown(name))),
    }
}

/// A DNS name that no client takes for an address.
fn is_server_name(text: &str) -> bool {
    name::is_dns_name(text) && !ends_in_digits(text)
}

fn ends_in_digits(text: &str) -> bool {
    text.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()))
}

fn number(got: u32, from: u32, to: u32) -> Result<(), RuleError> {
    if (from..=to).contains(&got) { Ok(()) } else { Err(RuleError::Number { from, to, got }) }
}

/// Beginning of a text that may be long, quoted and escaped.
fn shown(text: &str) -> String {
    const MAX_SHOWN_CHARACTERS: usize = 80;
    let mut start = text.chars().take(MAX_SHOWN_CHARACTERS).collect::<String>();
    if start.len() < text.len() {
        start.push('…');
    }
    format!("{start:?}")
}
