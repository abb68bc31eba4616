//! The known state of a service, and its changes.
//!
//! A service consists of parts: the endpoints in its ServiceEndpoints, and those of each slice. A change names the
//! parts that differ, so a view of a large service looks at these alone.

use std::{collections::BTreeMap, sync::Arc};

use prost::Message as _;

use crate::catalog::{Endpoint, EndpointSlice, Service, ServiceEndpoints, ServicePort, ServiceRoutes};

/// The name of the part in the ServiceEndpoints; slices have the names of their resources.
pub(super) const HEAD: &str = "";

/// The properties of a service that concern all of its endpoints.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Facts {
    pub(super) ports: Vec<ServicePort>,
    pub(super) labels: BTreeMap<String, String>,
    /// The routes of its HTTP requests; `None` as long as no stream needs them.
    pub(super) routes: Option<Arc<ServiceRoutes>>,
}

/// A service.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    /// `None` if the service does not exist.
    pub(super) facts: Option<Facts>,
    /// Each part, as an encoded EndpointSlice or ServiceEndpoints.
    pub(super) parts: BTreeMap<String, Arc<[u8]>>,
}

/// The difference between two states of a service.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// `None` if the service does not exist.
    pub(super) facts: Option<Facts>,
    /// Whether the parts are all that there are. If not, the facts are as before, and parts without mention, too.
    pub(super) is_whole: bool,
    /// The new parts; `None` for a removed one.
    pub(super) parts: BTreeMap<String, Option<Vec<Endpoint>>>,
}

impl Snapshot {
    /// The change from this state to a later one.
    ///
    /// # Errors
    /// A part cannot be decoded.
    pub(super) fn change_to(&self, later: &Self) -> Result<Change, prost::DecodeError> {
        let is_whole = self.facts != later.facts;
        let is_same = |name: &String, part: &Arc<[u8]>| {
            !is_whole && self.parts.get(name).is_some_and(|before| Arc::ptr_eq(before, part) || before == part)
        };
        let changed = later.parts.iter().filter(|(name, part)| !is_same(name, part));
        let mut parts = changed.map(|(name, part)| decoded(name, part)).collect::<Result<BTreeMap<_, _>, _>>()?;
        let gone = self.parts.keys().filter(|name| !is_whole && !later.parts.contains_key(*name));
        parts.extend(gone.map(|name| (name.clone(), None)));
        Ok(Change { facts: later.facts.clone(), is_whole, parts })
    }

    /// The change from an unknown state to this one.
    ///
    /// # Errors
    /// A part cannot be decoded.
    pub(super) fn whole(&self) -> Result<Change, prost::DecodeError> {
        let parts = self.parts.iter().map(|(name, part)| decoded(name, part)).collect::<Result<_, _>>()?;
        Ok(Change { facts: self.facts.clone(), is_whole: true, parts })
    }

    /// Size in memory, bytes.
    pub(super) fn size(&self) -> usize {
        let routes = self.facts.iter().filter_map(|facts| facts.routes.as_ref()).map(|routes| routes.encoded_len());
        self.parts.iter().map(|(name, part)| name.len() + part.len()).chain(routes).sum()
    }
}

fn decoded(name: &str, part: &[u8]) -> Result<(String, Option<Vec<Endpoint>>), prost::DecodeError> {
    let endpoints = match name {
        HEAD => ServiceEndpoints::decode(part)?.endpoints,
        _ => EndpointSlice::decode(part)?.endpoints,
    };
    Ok((name.to_owned(), Some(endpoints)))
}

/// The facts about a service, from its endpoints as far as there are any.
pub(super) fn facts(
    service: Option<&Service>,
    endpoints: Option<&ServiceEndpoints>,
    routes: Option<Arc<ServiceRoutes>>,
) -> Option<Facts> {
    let (ports, labels) = match (endpoints, service) {
        (Some(endpoints), _) => (&endpoints.ports, &endpoints.labels),
        (None, Some(service)) => (&service.ports, &service.labels),
        (None, None) => return None,
    };
    Some(Facts { ports: ports.clone(), labels: labels.clone(), routes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(address: &str) -> Arc<[u8]> {
        let endpoint = Endpoint { address: address.to_owned(), ..Endpoint::default() };
        EndpointSlice { endpoints: vec![endpoint], ..EndpointSlice::default() }.encode_to_vec().into()
    }

    /// A change of a large service costs the slice that differs, also if equal bytes were read again.
    #[test]
    fn a_change_names_the_parts_that_differ() {
        let facts = Facts { ports: Vec::new(), labels: BTreeMap::new(), routes: None };
        let snapshot = |parts: &[(&str, &str)]| Snapshot {
            facts: Some(facts.clone()),
            parts: parts.iter().map(|(name, address)| ((*name).to_owned(), part(address))).collect(),
        };
        let before = snapshot(&[("web-1", "10.0.0.1"), ("web-2", "10.0.0.2"), ("web-3", "10.0.0.3")]);
        let after = snapshot(&[("web-1", "10.0.0.1"), ("web-2", "10.0.0.9"), ("web-4", "10.0.0.4")]);
        let change = before.change_to(&after).unwrap();
        let parts: Vec<_> = change.parts.iter().map(|(name, part)| (name.as_str(), part.is_some())).collect();
        assert_eq!((change.is_whole, parts), (false, vec![("web-2", true), ("web-3", false), ("web-4", true)]));
        assert!(after.change_to(&after).unwrap().parts.is_empty());
    }
}
