//! Rules for the contents of services and workloads. Each fault has the path of its field.

use std::collections::BTreeMap;

use mortise_plugin::{Diagnostics, Path, Typed, field};

use crate::proto::catalog::v1::{Selector, Service, ServicePort, Workload};

pub(crate) mod addresses;
mod checks;
mod common;
mod error;
mod inbound;
pub(crate) mod limits;
pub(crate) mod routes;

use self::{
    common::{
        Findings, Seen, dns_ttl, host, identity, in_range, known_port, label_key, opaque, places, port_number, prefix,
        protocol, resource_name, server_name, text,
    },
    error::RuleError,
    limits::{
        ENDPOINT_LABELS, MAX_ADDRESSES, MAX_CHECKS, MAX_LABEL_VALUE_BYTES, MAX_LABELS, MAX_PORTS, NAMES, PREFIXES,
        WEIGHT, ZONE,
    },
};

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
    addresses::check_declared(&service.data.virtual_addresses, &mut findings);
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
            findings.add(RuleError::LabelKey(common::shown(key)), labels.clone().key(key));
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
        findings.note(opaque(port.opaque, port.protocol), || place.clone().field("opaque"));
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
        findings.note(opaque(port.opaque, port.protocol), || place.clone().field("opaque"));
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
