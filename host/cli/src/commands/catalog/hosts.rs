//! `/etc/hosts` as a source: a workload for each host, a service for each name.
//!
//! The first name of a line is the workload; the lines with one name are its addresses. Each name, aliases included, is
//! a service that selects the workloads of its lines. A hosts file has no ports, so neither have the services.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use mortise_resource::grpc::catalog::{Workload, WorkloadAddress};
use mortise_text::{Source, file_name};

use super::plan::{FoundWorkload, LoadPlan, MAX_ADDRESSES, Place, resource_name};

/// Names that every hosts file has for the machine itself.
const OWN: [&str; 9] = [
    "localhost",
    "localhost.localdomain",
    "localhost4",
    "localhost6",
    "ip6-localhost",
    "ip6-loopback",
    "ip6-localnet",
    "ip6-mcastprefix",
    "broadcasthost",
];

/// Reads a hosts file. Invalid lines are left out, with a note.
pub(super) fn read(source: Source<'_>) -> LoadPlan {
    let mut plan = LoadPlan::default();
    let file: Arc<str> = file_name(source.name).into();
    for (line, number) in source.text.lines().zip(1_usize..) {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(address) = words.next() else { continue };
        let place = Place::line(&file, number);
        let Ok(ip) = address.parse::<IpAddr>() else {
            plan.skip(place, format!("{address:?} is not an IP address"));
            continue;
        };
        let names: Vec<_> = words.filter(|name| !OWN.contains(name) && !name.starts_with("ip6-all")).collect();
        if names.is_empty() {
            continue;
        }
        if ip.is_unspecified() || ip.is_multicast() {
            plan.skip(place, format!("{ip} is not the address of a host"));
            continue;
        }
        let mut legal = BTreeMap::new();
        for name in &names {
            match resource_name(name) {
                None => plan.skip(place.clone(), format!("{name:?} cannot be the name of a resource")),
                Some(own) if plan.claim(&own, name, &place) => _ = legal.insert(*name, own),
                Some(_) => {}
            }
        }
        let Some(host) = names.iter().find_map(|name| legal.get(name)) else { continue };
        let address = WorkloadAddress { host: ip.to_string(), ports: Vec::new() };
        let workload = plan.workloads.entry(host.clone()).or_insert_with(|| FoundWorkload {
            place: place.clone(),
            metadata: BTreeMap::new(),
            data: Workload::default(),
        });
        if !workload.data.addresses.contains(&address) {
            if workload.data.addresses.len() == MAX_ADDRESSES {
                plan.skip(place, format!("{host} has {MAX_ADDRESSES} addresses already"));
                continue;
            }
            workload.data.addresses.push(address);
        }
        for name in legal.values() {
            plan.select(name, &place, host, &[]);
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> LoadPlan {
        super::read(Source { name: "hosts", text })
    }

    #[test]
    fn hosts_are_workloads_and_names_are_services() {
        let text = "127.0.0.1 localhost\n::1 ip6-localhost ip6-loopback\nff02::1 ip6-allnodes\n\n\
                    # a comment\n192.0.2.1 web1.lan web www # behind\n2001:db8::1\tweb1.lan\n192.0.2.2 web2.lan web\n\
                    192.0.2 broken\n0.0.0.0 blocked.example\n192.0.2.3 é\n";
        let plan = read(text);
        let addresses = |name: &str| -> Vec<_> {
            plan.workloads[name].data.addresses.iter().map(|address| address.host.as_str()).collect()
        };
        assert_eq!(plan.workloads.keys().collect::<Vec<_>>(), ["web1-lan", "web2-lan"]);
        assert_eq!(addresses("web1-lan"), ["192.0.2.1", "2001:db8::1"]);
        let selected = |name: &str| plan.services[name].workloads.iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(plan.services.keys().collect::<Vec<_>>(), ["web", "web1-lan", "web2-lan", "www"]);
        assert_eq!(selected("web"), ["web1-lan", "web2-lan"]);
        assert_eq!(selected("www"), ["web1-lan"]);
        let places: Vec<_> = plan.skipped.iter().map(|skipped| skipped.place.to_string()).collect();
        assert_eq!(places, ["hosts:9", "hosts:10", "hosts:11"]);
    }

    #[test]
    fn names_that_differ_in_marks_alone_do_not_become_one() {
        let plan = read("192.0.2.1 a.b x\n192.0.2.2 a-b y\n192.0.2.3 A.B\n192.0.2.4 c a_b\n");
        let addresses = |name: &str| plan.workloads[name].data.addresses.iter().map(|one| one.host.clone());
        assert_eq!(addresses("a-b").collect::<Vec<_>>(), ["192.0.2.1", "192.0.2.3"]);
        assert_eq!(addresses("y").collect::<Vec<_>>(), ["192.0.2.2"]);
        let skipped: Vec<_> = plan.skipped.iter().map(|one| format!("{}: {}", one.place, one.text)).collect();
        assert_eq!(
            skipped,
            [
                r#"hosts:2: "a-b" becomes "a-b", as "a.b" of hosts:1 does; rename one of them"#,
                r#"hosts:4: "a_b" becomes "a-b", as "a.b" of hosts:1 does; rename one of them"#,
            ]
        );
    }

    #[test]
    fn addresses_beyond_those_of_a_workload_are_left_out() {
        let line = |number: usize| format!("192.0.2.{number} web\n");
        let text: String = (1..=MAX_ADDRESSES + 1).chain(1..=MAX_ADDRESSES).map(line).collect();
        let plan = read(&text);
        assert_eq!(plan.workloads["web"].data.addresses.len(), MAX_ADDRESSES);
        let skipped: Vec<_> = plan.skipped.iter().map(|one| one.place.to_string()).collect();
        assert_eq!(skipped, [format!("hosts:{}", MAX_ADDRESSES + 1)]);
    }
}
