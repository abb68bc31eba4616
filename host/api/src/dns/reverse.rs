//! Names of addresses: the workloads that have an address, below each of their services.
//!
//! The plugin `catalog` declares indexes of the addresses, so a question reads the resources with the address alone. An
//! index exists from the first question on, until an hour passes without one (docs/query.md).

use std::{collections::BTreeSet, net::IpAddr};

use hickory_proto::{
    op::ResponseCode,
    rr::{Name, RecordType},
};
use mortise_resource::{
    data::SearchRequest,
    grpc::catalog::{EndpointSlice, ServiceEndpoints},
    name::is_valid,
    pb,
    tenancy::DEFAULT,
    types::Gvk,
};
use mortise_service::{Caller, Consistency, ResourceService};
use prost::Message as _;

use super::{
    answer::label,
    large::Thread,
    packed::{self, Packed},
    reads::Reads,
};
use crate::endpoints::{service_endpoints, slices};

/// Most services whose resources are read for an address, and as many slices.
const MAX_SERVICES: i32 = 16;

/// Most names in an answer.
const MAX_NAMES: usize = 64;

/// Returns the names of an address that the caller may read, in the zone.
///
/// # Errors
/// The code of the answer: SERVFAIL.
pub(super) async fn names(
    service: &ResourceService,
    caller: &Caller,
    ip: IpAddr,
    zone: &Name,
    thread: &Thread,
) -> Result<BTreeSet<Name>, ResponseCode> {
    let mut labels = Vec::new();
    for kind in [service_endpoints(), slices()] {
        for (found, data) in search(service, &kind, ip).await? {
            let namespace = found.tenancy.map(|tenancy| tenancy.namespace).unwrap_or_default();
            let is_slice = kind == slices();
            let (of_service, in_part) = thread.run(move || decode(found.name, is_slice, &data, ip)).await?;
            // A caller that may read the endpoints of a service gets its slices.
            match Reads::begin(service, &namespace).read_as(caller, &service_endpoints(), &of_service).await {
                Ok(Some(_)) => labels.push((namespace, of_service, in_part)),
                Ok(None) | Err(ResponseCode::Refused) => {}
                Err(code) => return Err(code),
            }
        }
    }
    let full = |label: &str, name: &str, namespace: &str| {
        Name::from_ascii(format!("{label}.{name}.{namespace}.svc")).and_then(|full| full.append_domain(zone)).ok()
    };
    let names = labels
        .iter()
        .flat_map(|(namespace, name, labels)| labels.iter().filter_map(move |label| full(label, name, namespace)));
    Ok(names.take(MAX_NAMES).collect())
}

/// The service of a part, and the labels of the part's endpoints with the address.
fn decode(name: String, is_slice: bool, data: &[u8], ip: IpAddr) -> Result<(String, Vec<String>), ResponseCode> {
    let (name, endpoints) = if is_slice {
        EndpointSlice::decode(data).map(|slice| (slice.service, slice.endpoints))
    } else {
        ServiceEndpoints::decode(data).map(|head| (name, head.endpoints))
    }
    .map_err(|_| ResponseCode::ServFail)?;
    let with_address = endpoints.iter().filter(|endpoint| endpoint.address.parse() == Ok(ip));
    let labels = with_address.map(label).filter(|label| is_valid(label)).take(MAX_NAMES).collect();
    Ok((name, labels))
}

/// Makes the records of names.
pub(super) fn pack(names: &BTreeSet<Name>, ttl: u32) -> Packed {
    let mut records = Packed::default();
    for name in names.iter().filter_map(packed::wire) {
        records.push(RecordType::PTR, ttl, &name);
    }
    records
}

/// Finds the resources of a type in which an endpoint has the address, as the host.
async fn search(service: &ResourceService, kind: &Gvk, ip: IpAddr) -> Result<Vec<(pb::Id, Vec<u8>)>, ResponseCode> {
    let request = SearchRequest {
        r#type: Some(kind.to_pb()),
        tenancy: Some(pb::Tenancy { partition: DEFAULT.to_owned(), namespace: "*".to_owned() }),
        filter: format!("data.endpoints.address = \"{ip}\""),
        page_size: MAX_SERVICES,
        ..SearchRequest::default()
    };
    match service.search(&Caller::host(Consistency::Eventual), request).await {
        Ok(found) => {
            let parts = found.resources.into_iter();
            Ok(parts.filter_map(|found| Some((found.id?, found.data.unwrap_or_default().value))).collect())
        }
        Err(error) => {
            tracing::debug!("DNS: names of {ip}: {error}");
            Err(ResponseCode::ServFail)
        }
    }
}
