//! Result of reading a source, the same for every format: resources to write, and entries left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use mortise_resource::{
    grpc::catalog::{Selector, Service, ServicePort, Workload, health_check::Check},
    meta::{DELETION_TIMESTAMP, FINALIZERS},
    name,
};

/// Most ports of a service or a workload, and most addresses of a workload; the server rejects more.
pub(super) const MAX_PORTS: usize = 64;
pub(super) const MAX_ADDRESSES: usize = 16;

/// Most workloads of a service: as many names as a selector may have.
pub(super) const MAX_WORKLOADS: usize = 256;

/// Place of an entry in its source: prints as `compose.yaml:7: services.web.ports[1]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) file: Arc<str>,
    /// Line, counted from 1.
    pub(super) line: usize,
    /// Path in the file; empty if the line is enough.
    pub(super) path: String,
}

impl Place {
    /// Makes the place of a line.
    pub(super) fn line(file: &Arc<str>, line: usize) -> Self {
        Self { file: Arc::clone(file), line, path: String::new() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if self.path.is_empty() { Ok(()) } else { write!(f, ": {}", self.path) }
    }
}

/// Remark about an entry of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) place: Place,
    pub(super) text: String,
}

/// A workload, its place in the source, and its metadata.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoundWorkload {
    pub(super) place: Place,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) data: Workload,
}

/// A service that selects workloads by their names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoundService {
    pub(super) place: Place,
    pub(super) workloads: BTreeSet<String>,
    pub(super) ports: Vec<ServicePort>,
}

/// Content of a source, by the names of resources.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LoadPlan {
    pub(super) services: BTreeMap<String, FoundService>,
    pub(super) workloads: BTreeMap<String, FoundWorkload>,
    /// Entries that are not loaded, with the reasons.
    pub(super) skipped: Vec<Remark>,
    /// Remarks about entries that are loaded, such as a changed name.
    pub(super) notes: Vec<Remark>,
    /// Names of the source in lower case and their places, by the names of resources that they became.
    claims: BTreeMap<String, (String, Place)>,
}

impl LoadPlan {
    pub(super) fn skip(&mut self, place: Place, reason: impl Into<String>) {
        self.skipped.push(Remark { place, text: reason.into() });
    }

    pub(super) fn note(&mut self, place: Place, text: impl Into<String>) {
        self.notes.push(Remark { place, text: text.into() });
    }

    /// Takes the name of a resource for a name of the source. Another name that differs in marks alone is left out,
    /// with a note: both would become one resource.
    pub(super) fn claim(&mut self, name: &str, source: &str, place: &Place) -> bool {
        let source = source.to_lowercase();
        let claim = self.claims.entry(name.to_owned()).or_insert_with(|| (source.clone(), place.clone()));
        if claim.0 == source {
            return true;
        }
        let (other, first) = claim.clone();
        let reason = format!("{source:?} becomes {name:?}, as {other:?} of {first} does; rename one of them");
        self.skip(place.clone(), reason);
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
    pub(super) fn select(&mut self, service: &str, place: &Place, workload: &str, ports: &[ServicePort]) {
        let service = self.services.entry(service.to_owned()).or_insert_with(|| FoundService {
            place: place.clone(),
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

    /// Grants of the plugin `catalog` that the checks need, by the name of the setting.
    pub(super) fn grants(&self) -> BTreeMap<&'static str, BTreeSet<String>> {
        let mut grants: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for data in self.workloads.values().map(|found| &found.data) {
            let Some(host) = data.addresses.first().map(|address| &address.host) else { continue };
            let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
            for check in data.checks.iter().filter_map(|check| check.check.as_ref()) {
                let (setting, scheme, port) = match check {
                    Check::Ttl(_) => continue,
                    Check::Tcp(tcp) => ("tcp", String::new(), &tcp.port),
                    Check::Grpc(grpc) => ("http", "http://".to_owned(), &grpc.port),
                    Check::Http(http) => ("http", format!("{}://", http.scheme), &http.port),
                };
                if let Some(port) = data.ports.iter().find(|known| known.name == *port) {
                    grants.entry(setting).or_default().insert(format!("{scheme}{host}:{}", port.port));
                }
            }
        }
        grants
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
