//! The answers of GetProfile: how to speak to a service. Routes and overrides are not supported yet.
//!
//! - A service: the default profile, with the service's name. The stream follows the existence of the service.
//! - A service that does not exist: the profile of an unknown target, so that the client uses its own defaults; an
//!   error would only make it ask again at once.
//! - A port that the service does not list: an empty profile.
//! - One workload of a service: its address as `endpoint`, while it has one.
//! - An address: the profile of an unknown target. The workload behind it is not looked up.

use std::collections::BTreeMap;

use hyper::body::Bytes;
use prost::Message as _;

use super::super::frames::framed;
use super::{
    authority::{Authority, ServiceName},
    encode::Dialect,
    view::Summary,
};
use crate::linkerd::{
    destination::{DestinationProfile, RetryBudget, WeightedAddr},
    meta::{Metadata, Resource, metadata},
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

/// The profile of a service or of one of its workloads, framed for the client.
pub(super) fn of_service(authority: &Authority, zone: &str, summary: Summary) -> Bytes {
    let Authority { service: ServiceName { namespace, name }, selection } = authority;
    let first = match summary {
        Summary::Absent => return framed(&unknown()),
        Summary::Present { is_undefined: true, .. } => return framed(&DestinationProfile::default()),
        Summary::Present { first, .. } => first,
    };
    if selection.instance.is_some() {
        let endpoint = first.and_then(|address| WeightedAddr::decode(address.encoded(Dialect::Linkerd)).ok());
        let labels =
            BTreeMap::from([("namespace".to_owned(), namespace.clone()), ("service".to_owned(), name.clone())]);
        let endpoint = endpoint.map(|mut endpoint| {
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
    framed(&DestinationProfile {
        fully_qualified_name: format!("{name}.{namespace}.svc.{zone}"),
        parent_ref: Some(Metadata { kind: Some(metadata::Kind::Resource(service)) }),
        ..unknown()
    })
}
