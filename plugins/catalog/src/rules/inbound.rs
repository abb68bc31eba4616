//! Rules for the permissions of connections to a workload.

use std::net::IpAddr;

use mortise_plugin::field;

use super::{
    common::{Findings, Seen, identity, is_server_name, known_port, places, shown},
    error::RuleError,
};
use crate::proto::catalog::v1::Workload;

/// Most permissions of a workload; most networks and identities of one.
const MAX_RULES: usize = 64;
const MAX_NETWORKS: usize = 32;
const MAX_IDENTITIES: usize = 64;

/// The port of a proxy's metrics and probes.
const ADMIN_PORT: u32 = 4191;

/// Checks the permissions of a workload.
pub(super) fn check(data: &Workload, findings: &mut Findings<'_>) {
    let all = field("inbound");
    if !findings.bound(data.inbound.len(), MAX_RULES, &all) {
        return;
    }
    for (rule, place) in places(&data.inbound, &all) {
        findings.note(port(&rule.port, data), || place.clone().field("port"));
        let networks = place.clone().field("networks");
        if findings.bound(rule.networks.len(), MAX_NETWORKS, &networks) {
            let mut seen = Seen::default();
            for (one, place) in places(&rule.networks, &networks) {
                findings.note(network(one).and_then(|()| seen.once(one)), || place);
            }
        }
        let identities = place.clone().field("identities");
        if findings.bound(rule.identities.len(), MAX_IDENTITIES, &identities) {
            let mut seen = Seen::default();
            for (one, place) in places(&rule.identities, &identities) {
                findings.note(client(one).and_then(|()| seen.once(one)), || place);
            }
        }
        if rule.mesh_only && !rule.identities.is_empty() {
            findings.add(RuleError::AnyIdentity, place.field("mesh_only"));
        }
    }
}

/// Every port, or one of the workload's, by name or number.
fn port(text: &str, data: &Workload) -> Result<(), RuleError> {
    if text.is_empty() {
        return Ok(());
    }
    // A sign or a zero in front would be another text for the same port.
    let number = text.parse::<u32>().ok().filter(|number| number.to_string() == text);
    let found = data.ports.iter().find(|one| one.name == text || Some(one.port) == number);
    match found.map(|found| found.port).or(number) {
        Some(ADMIN_PORT) => Err(RuleError::AdminPort),
        _ if found.is_some() => Ok(()),
        _ => known_port(text, data),
    }
}

fn network(text: &str) -> Result<(), RuleError> {
    let wrong = || RuleError::Network(shown(text));
    let (ip, length) = match text.split_once('/') {
        Some((ip, length)) => (ip, Some(length)),
        None => (text, None),
    };
    let ip = ip.parse::<IpAddr>().map_err(|_| wrong())?;
    let Some(length) = length else { return Ok(()) };
    // A sign or a zero in front would be another text for the same network.
    let length = length.parse::<u32>().ok().filter(|number| number.to_string() == length).ok_or_else(wrong)?;
    // The bits behind the prefix, at the top.
    let (bits, most) = match ip {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()) << 96, 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    };
    let is_clear = length <= most && bits.checked_shl(length).unwrap_or(0) == 0;
    if is_clear { Ok(()) } else { Err(wrong()) }
}

/// An identity, or all DNS names below a domain.
fn client(text: &str) -> Result<(), RuleError> {
    match text.strip_prefix("*.") {
        Some(domain) if is_server_name(domain) => Ok(()),
        None if !text.is_empty() => identity(text),
        _ => Err(RuleError::Identity(shown(text))),
    }
}
