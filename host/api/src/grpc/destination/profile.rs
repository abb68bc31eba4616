//! The answers of GetProfile: how to speak to a service or an address.
//!
//! - A service: the default profile, with the service's name, whether or not it lists the port. The stream follows the
//!   existence of the service. If its workloads have different weights, each workload is a destination with its weight:
//!   proxies use no other weights. A service with routes has no destinations, since proxies would ignore the routes.
//! - A virtual address: the profile of its service, with the service as a destination at least.
//! - A service that does not exist: the profile of an unknown target, so that the client uses its own defaults; an
//!   error would only make it ask again at once.
//! - A workload, by its name below a service or by its own address: its address as `endpoint`.
//! - Another address: the profile of an unknown target, with the address as `endpoint`.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use prost::Message as _;

use super::super::frames::framed;
use super::{
    authority::{Authority, ServiceName},
    encode::{Address, Dialect, tcp_address},
    translate::{NAMESPACE, SERVICE, WORKLOAD},
    view::summary::Summary,
    workload::OwnWorkload,
};
use crate::{
    catalog::{ServiceRoute, ServiceRoutes},
    linkerd::{
        destination::{DestinationProfile, RetryBudget, WeightedAddr, WeightedDst},
        meta::{Metadata, Resource, metadata},
    },
};

/// The budget of retries: a fifth of the requests, and ten a second besides.
const RETRY_RATIO: f32 = 0.2;
const MIN_RETRIES_PER_SECOND: u32 = 10;
const RETRY_SECONDS: i64 = 10;

/// The profile of an unknown target.
pub(super) fn unknown() -> DestinationProfile {
    let ttl = prost_types::Duration { seconds: RETRY_SECONDS, nanos: 0 };
    let budget =
        RetryBudget { retry_ratio: RETRY_RATIO, min_retries_per_second: MIN_RETRIES_PER_SECOND, ttl: Some(ttl) };
    DestinationProfile { retry_budget: Some(budget), ..DestinationProfile::default() }
}

/// The profile of an address.
pub(super) fn of_address(addr: SocketAddr) -> DestinationProfile {
    let endpoint = WeightedAddr { addr: Some(tcp_address(addr)), ..WeightedAddr::default() };
    DestinationProfile { endpoint: Some(endpoint), ..unknown() }
}

/// The profile of a workload at its own address.
pub(super) fn of_workload(workload: &OwnWorkload) -> DestinationProfile {
    DestinationProfile {
        endpoint: Some(workload.endpoint.clone()),
        opaque_protocol: workload.is_opaque,
        parent_ref: Some(workload.metadata()),
        ..unknown()
    }
}

/// The profile of a service or of one of its workloads, framed for the client. A virtual address has at least one
/// destination, since clients would not balance without one.
pub(super) fn of_service(authority: &Authority, zone: &str, summary: &Summary, is_address: bool) -> Vec<u8> {
    let Authority { service: ServiceName { namespace, name }, selection } = authority;
    let decoded = |address: &Arc<Address>| WeightedAddr::decode(address.encoded(Dialect::Linkerd)).ok();
    let opaque_protocol = summary.port.as_ref().is_some_and(|port| port.opaque);
    if selection.instance.is_some() {
        let labels = BTreeMap::from([(NAMESPACE.to_owned(), namespace.clone()), (SERVICE.to_owned(), name.clone())]);
        let endpoint = summary.addresses.first().and_then(decoded).map(|mut endpoint| {
            endpoint.metric_labels.extend(labels);
            endpoint
        });
        return framed(&DestinationProfile { endpoint, opaque_protocol, ..unknown() }).to_vec();
    }
    let host = authority.host(zone);
    // Destinations of a profile win over the routes of a policy.
    let has_routes = routes_of_port(&summary.routes, selection.port).next().is_some();
    let dst_overrides = match weights(summary) {
        _ if has_routes => Vec::new(),
        weights if weights.is_empty() && is_address => {
            vec![WeightedDst { authority: authority.path(zone), weight: 1, backend_ref: None }]
        }
        weights => weights
            .into_iter()
            .map(|(workload, weight)| WeightedDst {
                authority: format!("{workload}.{host}:{}", selection.port),
                weight,
                backend_ref: None,
            })
            .collect(),
    };
    framed(&DestinationProfile {
        fully_qualified_name: host,
        parent_ref: Some(service_metadata(authority)),
        dst_overrides,
        opaque_protocol,
        ..unknown()
    })
    .to_vec()
}

/// The resource of a service, in the form of Kubernetes, which proxies use for labels.
pub(super) fn service_metadata(authority: &Authority) -> Metadata {
    let Authority { service: ServiceName { namespace, name }, selection } = authority;
    let resource = Resource {
        group: "core".to_owned(),
        kind: "Service".to_owned(),
        name: name.clone(),
        namespace: namespace.clone(),
        section: String::new(),
        port: selection.port.into(),
    };
    Metadata { kind: Some(metadata::Kind::Resource(resource)) }
}

/// The routes for a port of a service.
pub(super) fn routes_of_port(routes: &ServiceRoutes, port: u16) -> impl Iterator<Item = &ServiceRoute> {
    routes.routes.iter().filter(move |route| route.port == 0 || route.port == u32::from(port))
}

/// Each workload with its weight. Empty if all have the same, if one of them has no name, or if there are too many.
pub(super) fn weights(summary: &Summary) -> BTreeMap<String, u32> {
    if !summary.is_whole {
        return BTreeMap::new();
    }
    let mut weights = BTreeMap::new();
    for address in &summary.addresses {
        let Ok(mut address) = WeightedAddr::decode(address.encoded(Dialect::Linkerd)) else { return BTreeMap::new() };
        let Some(workload) = address.metric_labels.remove(WORKLOAD) else { return BTreeMap::new() };
        weights.insert(workload, address.weight);
    }
    let first = weights.values().next().copied();
    if weights.values().all(|weight| Some(*weight) == first) {
        return BTreeMap::new();
    }
    weights
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::grpc::destination::encode::{Address, TlsName};

    #[test]
    fn routes_are_those_of_the_port_and_of_every_port() {
        let route = |port: u32| ServiceRoute { route: format!("of-{port}"), port, rules: Vec::new() };
        let routes = ServiceRoutes { routes: [0, 80, 81].map(route).into() };
        let found: Vec<_> = routes_of_port(&routes, 80).map(|route| route.port).collect();
        assert_eq!(found, [0, 80]);
    }

    /// A workload beyond the first addresses would get no requests.
    #[test]
    fn weights_of_a_part_of_the_workloads_are_none() {
        let address = |weight: u32| {
            let labels = BTreeMap::from([(WORKLOAD.to_owned(), format!("web-{weight}"))]);
            let addr = ([10, 0, 0, 1], 80).into();
            Arc::new(Address::new(addr, weight, labels, TlsName::default(), false))
        };
        let addresses = [1, 2].map(address).into();
        let mut summary = Summary { addresses, is_whole: true, port: None, routes: Arc::default() };
        assert_eq!(weights(&summary), BTreeMap::from([("web-1".to_owned(), 1), ("web-2".to_owned(), 2)]));
        summary.is_whole = false;
        assert!(weights(&summary).is_empty());
    }
}
