//! Result of reading a source, the same for every format: resources to write, and entries left out.

use std::collections::{BTreeMap, BTreeSet};

use mortise_resource::{
    grpc::catalog::{Selector, Service, ServicePort, Workload},
    meta::{DELETION_TIMESTAMP, FINALIZERS},
    name,
};

/// Most ports of a service or a workload, and most addresses of a workload; the server rejects more.
pub(super) const MAX_PORTS: usize = 64;
pub(super) const MAX_ADDRESSES: usize = 16;

/// Entry of the source that is not loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Skipped {
    /// Place in the source, such as `services.web.ports[1]`.
    pub(super) place: String,
    pub(super) reason: String,
}

/// A workload, its place in the source, and its metadata.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoundWorkload {
    pub(super) place: String,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) data: Workload,
}

/// A service that selects workloads by their names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoundService {
    pub(super) place: String,
    pub(super) workloads: BTreeSet<String>,
    pub(super) ports: Vec<ServicePort>,
}

/// Content of a source, by the names of resources.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LoadPlan {
    pub(super) services: BTreeMap<String, FoundService>,
    pub(super) workloads: BTreeMap<String, FoundWorkload>,
    pub(super) skipped: Vec<Skipped>,
    /// Names of the source in lower case and their places, by the names of resources that they became.
    claims: BTreeMap<String, (String, String)>,
}

impl LoadPlan {
    pub(super) fn skip(&mut self, place: impl Into<String>, reason: impl Into<String>) {
        self.skipped.push(Skipped { place: place.into(), reason: reason.into() });
    }

    /// Takes the name of a resource for a name of the source. Another one that differs in marks alone is left out, with
    /// a note: both would become one resource.
    pub(super) fn claim(&mut self, name: &str, of: &str, place: &str) -> bool {
        let of = of.to_lowercase();
        let claim = self.claims.entry(name.to_owned()).or_insert_with(|| (of.clone(), place.to_owned()));
        if claim.0 == of {
            return true;
        }
        let (other, at) = claim.clone();
        self.skip(place, format!("{of:?} becomes {name:?}, as {other:?} of {at} does; rename one of them"));
        false
    }

    /// Adds a workload, unless its name is taken.
    pub(super) fn add_workload(&mut self, name: &str, workload: FoundWorkload) -> bool {
        match self.workloads.get(name) {
            Some(other) => {
                let reason = format!("{} has the name {name:?} already", other.place);
                self.skip(workload.place, reason);
                false
            }
            None => {
                self.workloads.insert(name.to_owned(), workload);
                true
            }
        }
    }

    /// Adds a workload to a service, and creates the service if it is new.
    pub(super) fn select(&mut self, service: &str, place: &str, workload: &str, ports: &[ServicePort]) {
        let service = self.services.entry(service.to_owned()).or_insert_with(|| FoundService {
            place: place.to_owned(),
            workloads: BTreeSet::new(),
            ports: Vec::new(),
        });
        service.workloads.insert(workload.to_owned());
        for port in ports {
            let known = |other: &ServicePort| other.name == port.name || other.port == port.port;
            if service.ports.len() < MAX_PORTS && !service.ports.iter().any(known) {
                service.ports.push(port.clone());
            }
        }
    }
}

impl FoundService {
    pub(super) fn data(&self) -> Service {
        let names = self.workloads.iter().cloned().collect();
        Service {
            selector: Some(Selector { names, ..Selector::default() }),
            ports: self.ports.clone(),
            ..Service::default()
        }
    }
}

/// Turns a text into a resource's name: lower case, a dash for each invalid character, at most 63 characters. `None` if
/// nothing is left.
pub(super) fn resource_name(text: &str) -> Option<String> {
    let letter = |letter: char| {
        let letter = letter.to_ascii_lowercase();
        if letter.is_ascii_lowercase() || letter.is_ascii_digit() { letter } else { '-' }
    };
    let name: String = text.chars().map(letter).take(name::MAX_NAME_BYTES).collect();
    let name = name.trim_matches('-');
    name::is_valid(name).then(|| name.to_owned())
}

/// Metadata without the keys that the server interprets.
pub(super) fn metadata<'a>(pairs: impl IntoIterator<Item = (&'a String, &'a String)>) -> BTreeMap<String, String> {
    let plain = |key: &str| !key.is_empty() && key != DELETION_TIMESTAMP && key != FINALIZERS;
    pairs.into_iter().filter(|(key, _)| plain(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_legal() {
        for (text, name) in [
            ("web", Some("web")),
            ("Web_Front.end", Some("web-front-end")),
            ("_x_", Some("x")),
            ("é", None),
            ("", None),
            ("--", None),
        ] {
            assert_eq!(resource_name(text).as_deref(), name, "{text:?}");
        }
        assert_eq!(resource_name(&"a".repeat(100)).map(|name| name.len()), Some(63));
    }
}
