//! Parses names in the zone.

use hickory_proto::rr::Name;
use mortise_resource::name::is_valid;

/// The subject of a name. Names of resources are in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// A name in another zone.
    Elsewhere,
    /// The zone itself.
    Apex,
    /// The name of this server: `ns.dns.ZONE`.
    Server,
    /// A name without records, with names below it.
    Empty,
    /// A service, or a part of it.
    Service { namespace: String, service: String, part: Part },
    /// A name that cannot exist.
    Nothing,
}

/// The part of a service that a name refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// The whole service.
    Whole,
    /// `_tcp.`: a name without records.
    Protocol,
    /// `_port._tcp.`: a port.
    Port(String),
    /// `workload.`: a workload.
    Workload(String),
}

/// Parses a name.
pub(super) fn parse_name(zone: &Name, name: &Name) -> Subject {
    if !zone.zone_of(name) {
        return Subject::Elsewhere;
    }
    let below = usize::from(name.num_labels().saturating_sub(zone.num_labels()));
    let mut labels = Vec::with_capacity(below);
    for label in name.iter().take(below) {
        match std::str::from_utf8(label) {
            Ok(label) => labels.push(label.to_ascii_lowercase()),
            Err(_) => return Subject::Nothing,
        }
    }
    let labels: Vec<_> = labels.iter().map(String::as_str).collect();
    match labels.as_slice() {
        [] => Subject::Apex,
        ["svc" | "dns"] => Subject::Empty,
        ["ns", "dns"] => Subject::Server,
        [namespace, "svc"] if is_valid(namespace) => Subject::Empty,
        [service, namespace, "svc"] => of_service(service, namespace, Part::Whole),
        ["_tcp", service, namespace, "svc"] => of_service(service, namespace, Part::Protocol),
        [workload, service, namespace, "svc"] if is_valid(workload) => {
            of_service(service, namespace, Part::Workload((*workload).to_owned()))
        }
        [port, "_tcp", service, namespace, "svc"] => match port.strip_prefix('_').filter(|port| is_valid(port)) {
            Some(port) => of_service(service, namespace, Part::Port(port.to_owned())),
            None => Subject::Nothing,
        },
        _ => Subject::Nothing,
    }
}

fn of_service(service: &str, namespace: &str, part: Part) -> Subject {
    if !is_valid(service) || !is_valid(namespace) {
        return Subject::Nothing;
    }
    Subject::Service { namespace: namespace.to_owned(), service: service.to_owned(), part }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(text: &str) -> Subject {
        let zone = Name::from_ascii("cluster.local.").unwrap();
        parse_name(&zone, &Name::from_ascii(text).unwrap())
    }

    #[test]
    fn names_are_taken_apart_whatever_their_case() {
        let service = |part| Subject::Service { namespace: "shop".into(), service: "web".into(), part };
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
        ] {
            assert_eq!(is(text), expected, "{text}");
        }
    }
}
