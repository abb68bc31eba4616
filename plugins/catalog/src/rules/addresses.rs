//! Rules for virtual addresses.

use std::net::IpAddr;

use mortise_plugin::{Diagnostics, Typed, field};

use super::{
    common::{Findings, Seen, places, shown},
    error::RuleError,
};
use crate::{kinds::address_name, proto::catalog::v1::VirtualAddress};

/// Most addresses that a service declares.
const MAX_DECLARED: usize = 8;

/// Checks the addresses that a service declares, in their canonical form.
pub(super) fn check_declared(addresses: &[String], findings: &mut Findings<'_>) {
    let all = field("virtual_addresses");
    if !findings.bound(addresses.len(), MAX_DECLARED, &all) {
        return;
    }
    let mut seen = Seen::default();
    for (address, place) in places(addresses, &all) {
        findings.note(parse(address).map(drop).and_then(|()| seen.once(address)), || place);
    }
}

/// Checks a VirtualAddress: its name is that of the address, so that an address has one resource.
pub(crate) fn address(address: &Typed<VirtualAddress>, _: Option<&Typed<VirtualAddress>>, found: &mut Diagnostics) {
    let mut findings = Findings(found);
    let text = &address.data.address;
    let judged = parse(text).and_then(|ip| {
        let name = address_name(ip);
        if name == address.name() {
            return Ok(());
        }
        Err(RuleError::AddressName { address: ip.to_string(), name })
    });
    findings.note(judged, || field("address"));
}

/// Parses an address that a service can have.
fn parse(text: &str) -> Result<IpAddr, RuleError> {
    let is_host = |ip: &IpAddr| {
        let is_mapped = matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
        let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        // A machine's own addresses, and those of its link, such as that of a cloud's metadata.
        let is_local = ip.is_loopback() || matches!(ip, IpAddr::V4(ip) if ip.is_link_local());
        !ip.is_unspecified() && !ip.is_multicast() && !is_mapped && !is_broadcast && !is_local
    };
    text.parse().ok().filter(is_host).ok_or_else(|| RuleError::VirtualAddress(shown(text)))
}
