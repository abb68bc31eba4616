//! Names of the types.

use mortise_plugin::Kind;

use crate::proto::catalog::v1::{EndpointSlice, Service, ServiceEndpoints, Workload};

/// A name under which workloads are found.
pub(crate) const SERVICE: Kind<Service> = Kind::new("catalog", "v1", "Service");
/// A running instance of something, and its addresses.
pub(crate) const WORKLOAD: Kind<Workload> = Kind::new("catalog", "v1", "Workload");
/// Addresses at which a service is reached.
pub(crate) const ENDPOINTS: Kind<ServiceEndpoints> = Kind::new("catalog", "v1", "ServiceEndpoints");
/// Further addresses of a large service.
pub(crate) const SLICE: Kind<EndpointSlice> = Kind::new("catalog", "v1", "EndpointSlice");
