//! Checks of single values, and the collector of their faults.

use std::{net::IpAddr, time::Duration};

use mortise_plugin::{Diagnostics, Path, name};

use super::{
    error::RuleError,
    limits::{EVERY_NAME, MAX_DNS_TTL_SECONDS, MAX_IDENTITY_BYTES, MAX_LABEL_KEY_BYTES, MAX_METHOD_BYTES, MAX_PORTS},
};
use crate::proto::catalog::v1::{Protocol, Workload};

/// Collector of faults.
pub(super) struct Findings<'d>(pub(super) &'d mut Diagnostics);

impl Findings<'_> {
    pub(super) fn add(&mut self, error: RuleError, place: Path) {
        self.0.error(error.to_string()).at(place);
    }

    pub(super) fn note(&mut self, judged: Result<(), RuleError>, place: impl FnOnce() -> Path) {
        if let Err(error) = judged {
            self.add(error, place());
        }
    }

    /// Adds a fault if there are too many; answers whether the number is allowed.
    pub(super) fn bound(&mut self, got: usize, most: usize, place: &Path) -> bool {
        if got > most {
            self.add(RuleError::TooMany { most, got }, place.clone());
        }
        got <= most
    }
}

/// Values seen so far, for finding duplicates.
#[derive(Default)]
pub(super) struct Seen(std::collections::BTreeSet<String>);

impl Seen {
    pub(super) fn once(&mut self, one: &impl ToString) -> Result<(), RuleError> {
        let text = one.to_string();
        if self.0.insert(text.clone()) { Ok(()) } else { Err(RuleError::Duplicate(shown(&text))) }
    }
}

/// Each item, with its path.
pub(super) fn places<'i, T>(items: &'i [T], all: &Path) -> impl Iterator<Item = (&'i T, Path)> {
    items.iter().zip(0_u32..).map(|(item, index)| (item, all.clone().index(index)))
}

pub(super) fn dns_ttl(ttl: &prost_types::Duration) -> Result<(), RuleError> {
    if (0..=MAX_DNS_TTL_SECONDS).contains(&ttl.seconds) && ttl.nanos == 0 {
        return Ok(());
    }
    Err(RuleError::DnsTtl(format!("{}.{:09}s", ttl.seconds, ttl.nanos.unsigned_abs())))
}

pub(super) fn in_range(value: u32, from: u32, to: u32, error: fn(u32) -> RuleError) -> Result<(), RuleError> {
    if (from..=to).contains(&value) { Ok(()) } else { Err(error(value)) }
}

pub(super) fn port_number(number: u32) -> Result<(), RuleError> {
    in_range(number, 1, u16::MAX.into(), RuleError::Port)
}

pub(super) fn protocol(number: i32) -> Result<(), RuleError> {
    Protocol::try_from(number).map(drop).map_err(|_| RuleError::Protocol(number))
}

/// An opaque port has the protocol TCP: proxies do not look for another one.
pub(super) fn opaque(is_opaque: bool, protocol: i32) -> Result<(), RuleError> {
    match is_opaque && protocol != Protocol::Tcp as i32 {
        true => Err(RuleError::OpaqueProtocol),
        false => Ok(()),
    }
}

pub(super) fn resource_name(text: &str) -> Result<(), RuleError> {
    name::fault(text).map_or(Ok(()), |fault| Err(RuleError::Name(fault)))
}

/// An IP address, or a DNS name that resolvers do not take for one.
pub(super) fn host(text: &str) -> Result<(), RuleError> {
    if text.parse::<IpAddr>().is_ok() || is_server_name(text) {
        return Ok(());
    }
    Err(RuleError::Host(shown(text)))
}

pub(super) fn known_port(port: &str, data: &Workload) -> Result<(), RuleError> {
    if data.ports.iter().any(|one| one.name == port) {
        return Ok(());
    }
    let known = data.ports.iter().take(MAX_PORTS).map(|one| shown(&one.name)).collect::<Vec<_>>();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(RuleError::NoPort(shown(port), known))
}

pub(super) fn prefix(text: &str) -> Result<(), RuleError> {
    // A prefix of a valid name is valid with a letter after it.
    if text == EVERY_NAME || (!text.is_empty() && name::is_valid(&format!("{text}a"))) {
        return Ok(());
    }
    Err(RuleError::Prefix(shown(text)))
}

pub(super) fn label_key(key: &str) -> Result<(), RuleError> {
    let begins = key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let fits = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte));
    if begins && fits && key.len() <= MAX_LABEL_KEY_BYTES { Ok(()) } else { Err(RuleError::LabelKey(shown(key))) }
}

pub(super) fn text(text: &str, most: usize) -> Result<(), RuleError> {
    if text.len() <= most && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err(RuleError::Text { most, got: shown(text) })
}

/// Beginning of a SPIFFE ID.
const SPIFFE: &str = "spiffe://";

/// A DNS name, or a SPIFFE ID: clients know no other identities, and speak without TLS to a workload that has one.
pub(super) fn identity(text: &str) -> Result<(), RuleError> {
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

pub(super) fn server_name(data: &Workload) -> Result<(), RuleError> {
    match (data.identity.as_str(), data.server_name.as_str()) {
        (identity, "") if identity.starts_with(SPIFFE) => Err(RuleError::NoServerName),
        (_, "") => Ok(()),
        (identity, name) if !identity.is_empty() && is_server_name(name) => Ok(()),
        (_, name) => Err(RuleError::ServerName(shown(name))),
    }
}

/// A DNS name that no client takes for an address.
pub(super) fn is_server_name(text: &str) -> bool {
    name::is_dns_name(text) && !ends_in_digits(text)
}

pub(super) fn ends_in_digits(text: &str) -> bool {
    text.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()))
}

pub(super) fn number(got: u32, from: u32, to: u32) -> Result<(), RuleError> {
    if (from..=to).contains(&got) { Ok(()) } else { Err(RuleError::Number { from, to, got }) }
}

/// Beginning of a text that may be long, quoted and escaped.
pub(super) fn shown(text: &str) -> String {
    const MAX_SHOWN_CHARACTERS: usize = 80;
    let mut start = text.chars().take(MAX_SHOWN_CHARACTERS).collect::<String>();
    if start.len() < text.len() {
        start.push('…');
    }
    format!("{start:?}")
}

pub(super) fn duration(value: &prost_types::Duration, (from, to): (Duration, Duration)) -> Result<(), RuleError> {
    match Duration::try_from(*value) {
        Ok(given) if (from..=to).contains(&given) => Ok(()),
        Ok(given) => Err(RuleError::Duration { from, to, got: format!("{given:?}") }),
        Err(_) => Err(RuleError::Duration { from, to, got: "a negative time".to_owned() }),
    }
}

/// Whether a text is a method that a request can have.
pub(super) fn is_method(text: &str) -> bool {
    (1..=MAX_METHOD_BYTES).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_uppercase())
        && text != "CONNECT"
}
