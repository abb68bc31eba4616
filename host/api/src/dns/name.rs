//! Parses names in the zone.

use std::net::IpAddr;

use hickory_proto::rr::Name;
use mortise_resource::{name::is_valid, tenancy::DEFAULT};

use super::narrow::Narrowing;

/// The subject of a name. Names of resources are in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// A name in another zone.
    Elsewhere,
    /// The name of an address, in `in-addr.arpa` or `ip6.arpa`.
    Address(IpAddr),
    /// The zone itself.
    Apex,
    /// The name of this server: `ns.dns.ZONE`.
    Server,
    /// A name without records, with names below it.
    Empty,
    /// A service, or a part of it, with a condition on its endpoints.
    Service { namespace: String, service: String, narrowing: Narrowing, part: Part },
    /// A name that cannot exist.
    Nothing,
}

/// The part of a service that a name refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// The whole service.
    Whole,
    /// `_SERVICE._tcp.`: all ports of the service, which its name of RFC 2782 has instead of a port's.
    Service,
    /// `_tcp.`: a name without records.
    Protocol,
    /// `_port._tcp.`: a port.
    Port(String),
    /// `workload.`: a workload.
    Workload(String),
}

/// The zones of this server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zones<'z> {
    /// Names with namespace and `svc`.
    pub(super) whole: &'z Name,
    /// Short names.
    pub(super) short: Option<&'z Name>,
}

impl<'z> Zones<'z> {
    /// Whether one of the zones has a name.
    pub(super) fn has(self, name: &Name) -> bool {
        self.of(name).is_some()
    }

    /// The zone of a name: of two, the inner one.
    fn of(self, name: &Name) -> Option<&'z Name> {
        let zones = [Some(self.whole), self.short].into_iter().flatten();
        zones.filter(|zone| zone.zone_of(name)).max_by_key(|zone| zone.num_labels())
    }
}

/// Parses a name, and finds its zone; the first one for a name in another.
pub(super) fn parse_name<'z>(zones: Zones<'z>, name: &Name) -> (Subject, &'z Name) {
    let Some(zone) = zones.of(name) else {
        return (address(name).map_or(Subject::Elsewhere, Subject::Address), zones.whole);
    };
    // `num_labels` leaves out an asterisk.
    let below = name.iter().count().saturating_sub(zone.iter().count());
    let mut labels = Vec::with_capacity(below);
    for label in name.iter().take(below) {
        match std::str::from_utf8(label) {
            Ok(label) => labels.push(label.to_ascii_lowercase()),
            Err(_) => return (Subject::Nothing, zone),
        }
    }
    let labels: Vec<_> = labels.iter().map(String::as_str).collect();
    let subject =
        if zones.short.is_some_and(|short| std::ptr::eq(short, zone)) { of_short(&labels) } else { of_whole(&labels) };
    (subject, zone)
}

/// The address of a whole name below `arpa`.
fn address(name: &Name) -> Option<IpAddr> {
    let net = name.parse_arpa_name().ok()?;
    (net.prefix_len() == net.max_prefix_len()).then(|| net.addr())
}

fn of_whole(labels: &[&str]) -> Subject {
    match labels {
        [] => Subject::Apex,
        ["svc" | "dns"] => Subject::Empty,
        ["ns", "dns"] => Subject::Server,
        [namespace, "svc"] if is_valid(namespace) => Subject::Empty,
        ["_tcp", namespace, "svc"] if is_valid(namespace) => Subject::Empty,
        [labels @ .., namespace, "svc"] => below(labels, namespace),
        _ => Subject::Nothing,
    }
}

/// Parses the labels of a short name. Of two labels, the second is the namespace, so names of workloads, zones and
/// labels have a namespace. These names have no `svc`; the zone may begin with it (`svc.mesh`).
fn of_short(labels: &[&str]) -> Subject {
    match labels {
        [] => Subject::Apex,
        ["_tcp"] => Subject::Empty,
        [service] | [_, "_tcp", service] | ["_tcp", service] if is_valid(service) => below(labels, DEFAULT),
        [_, "_tcp"] => below(labels, DEFAULT),
        [labels @ .., namespace] => below(labels, namespace),
    }
}

/// A service of a namespace, or a part of it.
fn below(labels: &[&str], namespace: &str) -> Subject {
    match labels {
        [service, "_tcp"] => match service.strip_prefix('_') {
            Some(service) => of_service(service, namespace, Part::Service),
            None => Subject::Nothing,
        },
        [service] => of_service(service, namespace, Part::Whole),
        ["_tcp", service] => of_service(service, namespace, Part::Protocol),
        [workload, service] if is_valid(workload) => {
            of_service(service, namespace, Part::Workload((*workload).to_owned()))
        }
        [port, "_tcp", service] => match port.strip_prefix('_').filter(|port| is_valid(port)) {
            Some(port) => of_service(service, namespace, Part::Port(port.to_owned())),
            None => Subject::Nothing,
        },
        [labels @ .., mark, service] if Narrowing::is_mark(mark) => narrowed(labels, mark, service, namespace),
        _ => Subject::Nothing,
    }
}

/// A service with a condition on its endpoints, or a port of it.
fn narrowed(labels: &[&str], mark: &str, service: &str, namespace: &str) -> Subject {
    let (part, labels) = match labels {
        ["_tcp", labels @ ..] => (Part::Protocol, labels),
        [port, "_tcp", labels @ ..] => match port.strip_prefix('_').filter(|port| is_valid(port)) {
            Some(port) => (Part::Port(port.to_owned()), labels),
            None => return Subject::Nothing,
        },
        labels => (Part::Whole, labels),
    };
    match (Narrowing::parse(labels, mark), of_service(service, namespace, part)) {
        (Some(narrowing), Subject::Service { namespace, service, part, .. }) => {
            Subject::Service { namespace, service, narrowing, part }
        }
        _ => Subject::Nothing,
    }
}

fn of_service(service: &str, namespace: &str, part: Part) -> Subject {
    if !is_valid(service) || !is_valid(namespace) {
        return Subject::Nothing;
    }
    let (namespace, service) = (namespace.to_owned(), service.to_owned());
    Subject::Service { namespace, service, narrowing: Narrowing::All, part }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_namespace(namespace: &str, narrowing: Narrowing, part: Part) -> Subject {
        Subject::Service { namespace: namespace.into(), service: "web".into(), narrowing, part }
    }

    fn is(text: &str) -> Subject {
        let zone = Name::from_ascii("cluster.local.").unwrap();
        let short = Name::from_ascii("mesh.").unwrap();
        let zones = Zones { whole: &zone, short: Some(&short) };
        let (subject, found) = parse_name(zones, &Name::from_ascii(text).unwrap());
        assert_eq!(found == &short, text.to_ascii_lowercase().ends_with("mesh."), "{text}");
        subject
    }

    #[test]
    fn names_are_taken_apart_whatever_their_case() {
        let service = |part| in_namespace("shop", Narrowing::All, part);
        for (text, expected) in [
            ("cluster.local.", Subject::Apex),
            ("CLUSTER.Local.", Subject::Apex),
            ("local.", Subject::Elsewhere),
            ("notcluster.local.", Subject::Elsewhere),
            ("example.org.", Subject::Elsewhere),
            (".", Subject::Elsewhere),
            ("svc.cluster.local.", Subject::Empty),
            ("dns.cluster.local.", Subject::Empty),
            ("ns.dns.cluster.local.", Subject::Server),
            ("shop.svc.cluster.local.", Subject::Empty),
            ("pod.cluster.local.", Subject::Nothing),
            ("wEb.Shop.sVc.cluster.local.", service(Part::Whole)),
            ("_TCP.web.shop.svc.cluster.local.", service(Part::Protocol)),
            ("_http._tcp.web.shop.svc.cluster.local.", service(Part::Port("http".into()))),
            ("web-1.web.shop.svc.cluster.local.", service(Part::Workload("web-1".into()))),
            ("_http._udp.web.shop.svc.cluster.local.", Subject::Nothing),
            ("_udp.web.shop.svc.cluster.local.", Subject::Nothing),
            ("http._tcp.web.shop.svc.cluster.local.", Subject::Nothing),
            ("_a._http._tcp.web.shop.svc.cluster.local.", Subject::Nothing),
            ("my_app.shop.svc.cluster.local.", Subject::Nothing),
            ("*.shop.svc.cluster.local.", Subject::Nothing),
            ("*.cluster.local.", Subject::Nothing),
            ("_web._tcp.shop.svc.cluster.local.", service(Part::Service)),
            ("_tcp.shop.svc.cluster.local.", Subject::Empty),
            ("_web._udp.shop.svc.cluster.local.", Subject::Nothing),
            ("_._tcp.shop.svc.cluster.local.", Subject::Nothing),
        ] {
            assert_eq!(is(text), expected, "{text}");
        }
    }

    #[test]
    fn whole_names_of_addresses_are_addresses() {
        let four = Subject::Address("10.0.0.1".parse().unwrap());
        let six = Subject::Address("2001:db8::1".parse().unwrap());
        let six_name = format!("1.{}8.b.d.0.1.0.0.2.IP6.arpa.", "0.".repeat(23));
        for (text, expected) in [
            ("1.0.0.10.in-addr.arpa.", four.clone()),
            ("1.0.0.10.IN-ADDR.ARPA.", four),
            (six_name.as_str(), six),
            ("0.0.10.in-addr.arpa.", Subject::Elsewhere),
            ("256.0.0.10.in-addr.arpa.", Subject::Elsewhere),
            ("1.1.0.0.10.in-addr.arpa.", Subject::Elsewhere),
            ("8.b.d.0.1.0.0.2.ip6.arpa.", Subject::Elsewhere),
            ("in-addr.arpa.", Subject::Elsewhere),
            ("arpa.", Subject::Elsewhere),
        ] {
            assert_eq!(is(text), expected, "{text}");
        }
    }

    #[test]
    fn short_names_are_in_the_namespace_default_or_name_theirs() {
        let in_default = |part| in_namespace("default", Narrowing::All, part);
        let in_shop = |part| in_namespace("shop", Narrowing::All, part);
        for (text, expected) in [
            ("mesh.", Subject::Apex),
            ("_tcp.mesh.", Subject::Empty),
            ("WEB.mesh.", in_default(Part::Whole)),
            ("web.shop.mesh.", in_shop(Part::Whole)),
            ("web-1.web.shop.mesh.", in_shop(Part::Workload("web-1".into()))),
            ("_tcp.web.mesh.", in_default(Part::Protocol)),
            ("_tcp.web.shop.mesh.", in_shop(Part::Protocol)),
            ("_web._tcp.mesh.", in_default(Part::Service)),
            ("_http._tcp.web.mesh.", in_default(Part::Port("http".into()))),
            ("_http._tcp.web.shop.mesh.", in_shop(Part::Port("http".into()))),
            ("_http._udp.web.mesh.", Subject::Nothing),
            ("a.web-1.web.shop.mesh.", Subject::Nothing),
            ("web_1.mesh.", Subject::Nothing),
            ("*.mesh.", Subject::Nothing),
        ] {
            assert_eq!(is(text), expected, "{text}");
        }
    }

    #[test]
    fn names_may_have_a_zone_or_a_label_of_endpoints() {
        let zone = |zone: &str, part| in_namespace("shop", Narrowing::Zone(zone.into()), part);
        let label = |value: &str, part| {
            let label = Narrowing::Label { key: "version".into(), value: value.into() };
            in_namespace("shop", label, part)
        };
        for (text, expected) in [
            ("Rack-1.zone.web.shop.svc.cluster.local.", zone("rack-1", Part::Whole)),
            ("eu.west.zone.web.shop.svc.cluster.local.", zone("eu.west", Part::Whole)),
            ("zone.zone.web.shop.svc.cluster.local.", zone("zone", Part::Whole)),
            ("_tcp.rack-1.zone.web.shop.svc.cluster.local.", zone("rack-1", Part::Protocol)),
            ("_http._tcp.rack-1.zone.web.shop.svc.cluster.local.", zone("rack-1", Part::Port("http".into()))),
            ("rack-1.zone.web.shop.mesh.", zone("rack-1", Part::Whole)),
            ("v2.version.label.web.shop.svc.cluster.local.", label("v2", Part::Whole)),
            ("1.2.Version.Label.web.shop.svc.cluster.local.", label("1.2", Part::Whole)),
            ("version.label.web.shop.svc.cluster.local.", label("", Part::Whole)),
            ("_http._tcp.v2.version.label.web.shop.mesh.", label("v2", Part::Port("http".into()))),
            ("_tcp.zone.web.shop.svc.cluster.local.", Subject::Nothing),
            ("_http._tcp.zone.web.shop.svc.cluster.local.", Subject::Nothing),
            ("_a_b._tcp.rack-1.zone.web.shop.svc.cluster.local.", Subject::Nothing),
            ("rack-1.zones.web.shop.svc.cluster.local.", Subject::Nothing),
            ("rack-1.zone.my_app.shop.svc.cluster.local.", Subject::Nothing),
            // Names of before keep their sense.
            ("zone.web.shop.svc.cluster.local.", in_namespace("shop", Narrowing::All, Part::Workload("zone".into()))),
            ("label.web.shop.mesh.", in_namespace("shop", Narrowing::All, Part::Workload("label".into()))),
            ("_http._tcp.web.zone.mesh.", in_namespace("zone", Narrowing::All, Part::Port("http".into()))),
        ] {
            assert_eq!(is(text), expected, "{text}");
        }
        // Without a namespace, the last label of a short name is one.
        let workload = Subject::Service {
            namespace: "web".into(),
            service: "zone".into(),
            narrowing: Narrowing::All,
            part: Part::Workload("rack-1".into()),
        };
        assert_eq!(is("rack-1.zone.web.mesh."), workload);
    }

    #[test]
    fn of_two_zones_the_inner_one_has_a_name() {
        let (outer, inner) = (Name::from_ascii("local.").unwrap(), Name::from_ascii("mesh.local.").unwrap());
        let name = Name::from_ascii("web.mesh.local.").unwrap();
        for (whole, short, is_short) in [(&outer, &inner, true), (&inner, &outer, false)] {
            let (subject, zone) = parse_name(Zones { whole, short: Some(short) }, &name);
            assert_eq!((zone, matches!(subject, Subject::Service { .. })), (&inner, is_short));
        }
    }
}
