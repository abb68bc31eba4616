//! Names of the types.

use std::net::IpAddr;

use mortise_plugin::Kind;

use crate::proto::catalog::v1::{
    EndpointSlice, HttpRoute, Service, ServiceEndpoints, ServiceRoutes, VirtualAddress, Workload,
};

/// A name under which workloads are found.
pub(crate) const SERVICE: Kind<Service> = Kind::new("catalog", "v1", "Service");
/// A running instance of something, and its addresses.
pub(crate) const WORKLOAD: Kind<Workload> = Kind::new("catalog", "v1", "Workload");
/// Addresses at which a service is reached.
pub(crate) const ENDPOINTS: Kind<ServiceEndpoints> = Kind::new("catalog", "v1", "ServiceEndpoints");
/// Further addresses of a large service.
pub(crate) const SLICE: Kind<EndpointSlice> = Kind::new("catalog", "v1", "EndpointSlice");
/// An address of a service.
pub(crate) const ADDRESS: Kind<VirtualAddress> = Kind::new("catalog", "v1", "VirtualAddress");
/// Routes that a client writes for a service.
pub(crate) const HTTP_ROUTE: Kind<HttpRoute> = Kind::new("catalog", "v1", "HttpRoute");
/// All routes of a service.
pub(crate) const ROUTES: Kind<ServiceRoutes> = Kind::new("catalog", "v1", "ServiceRoutes");

/// The name of an address's resource. The host knows it, too.
pub(crate) fn address_name(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => format!("v4-{:08x}", ip.to_bits()),
        IpAddr::V6(ip) => format!("v6-{:032x}", ip.to_bits()),
    }
}
