//! The answers of GetProfile: how to speak to a service. Routes are not supported yet.
//!
//! - A service: the default profile, with the service's name, whether or not it lists the port. The stream follows the
//!   existence of the service. If its workloads have different weights, each workload is an override with its weight:
//!   proxies use no other weights.
//! - A service that does not exist: the profile of an unknown target, so that the client uses its own defaults; an
//!   error would only make it ask again at once.
//! - One workload of a service: its address as `endpoint`, while it has one.
//! - An address: the profile of an unknown target, with the address as `endpoint`. The workload behind it is not looked
//!   up.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use hyper::body::Bytes;
use prost::Message as _;

use super::super::frames::framed;
use super::{
    authority::{Authority, ServiceName},
    encode::{Address, Dialect, tcp_address},
    translate::WORKLOAD,
    view::Summary,
};
use crate::linkerd::{
    destination::{DestinationProfile, RetryBudget, WeightedAddr, WeightedDst},
    meta::{Metadata, Resource, metadata},
};

/// The budget of retries: a fifth of the requests, and ten a second besides.
const RETRY_RATIO: f32 = 0.2;
const MIN_RETRIES_PER_SECOND: u32 = 10;
const RETRY_SECONDS: i64 = 10;

/// Most addresses of a service whose workloads are overrides. Each costs a proxy a stream of its own.
pub(super) const MAX_OVERRIDES: usize = 64;

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

/// The profile of a service or of one of its workloads, framed for the client.
pub(super) fn of_service(authority: &Authority, zone: &str, summary: Summary) -> Bytes {
    let Authority { service: ServiceName { namespace, name }, selection } = authority;
    let (addresses, is_whole) = match summary {
        Summary::Absent => return framed(&unknown()),
        Summary::Present { addresses, is_whole } => (addresses, is_whole),
    };
    let decoded = |address: &Arc<Address>| WeightedAddr::decode(address.encoded(Dialect::Linkerd)).ok();
    if selection.instance.is_some() {
        let labels =
            BTreeMap::from([("namespace".to_owned(), namespace.clone()), ("service".to_owned(), name.clone())]);
        let endpoint = addresses.first().and_then(decoded).map(|mut endpoint| {
            endpoint.metric_labels.extend(labels);
            endpoint
        });
        return framed(&DestinationProfile { endpoint, ..unknown() });
    }
    let service = Resource {
        group: "core".to_owned(),
        kind: "Service".to_owned(),
        name: name.clone(),
        namespace: namespace.clone(),
        section: String::new(),
        port: selection.port.into(),
    };
    let host = format!("{name}.{namespace}.svc.{zone}");
    let dst_overrides = match is_whole {
        true => overrides(addresses.iter().filter_map(decoded), &host, selection.port),
        false => Vec::new(),
    };
    framed(&DestinationProfile {
        fully_qualified_name: host,
        parent_ref: Some(Metadata { kind: Some(metadata::Kind::Resource(service)) }),
        dst_overrides,
        ..unknown()
    })
}

/// Each workload with its weight; none if all have the same, or one of them has no name.
fn overrides(addresses: impl Iterator<Item = WeightedAddr>, host: &str, port: u16) -> Vec<WeightedDst> {
    let mut weights = BTreeMap::new();
    for address in addresses {
        let Some(workload) = address.metric_labels.get(WORKLOAD) else { return Vec::new() };
        weights.insert(workload.clone(), address.weight);
    }
    let first = weights.values().next().copied();
    if weights.values().all(|weight| Some(*weight) == first) {
        return Vec::new();
    }
    let of_workload = |(workload, weight): (String, u32)| WeightedDst {
        authority: format!("{workload}.{host}:{port}"),
        weight,
        backend_ref: None,
    };
    weights.into_iter().map(of_workload).collect()
}
