//! Access to the services that the plugin `catalog` maintains: `catalog.v1.Service`, `catalog.v1.ServiceEndpoints` and
//! its slices; `catalog.v1.ServiceRoutes`, `VirtualAddress` and `Workload`. The APIs of proxies and DNS read them
//! through these functions.
//!
//! A caller that may read the ServiceEndpoints of a name may also know whether the service exists, and get its slices:
//! those are read with the host's own rights.

use std::net::IpAddr;

use mortise_resource::{Code, Error, types::Gvk};
use mortise_service::{ResourceService, registry::Owner};

use crate::catalog::{Endpoint, Health, SliceRange};

/// The list of slices in a ServiceEndpoints, decoded without the endpoints; `plugins/catalog` has its rules.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Layout {
    #[prost(message, repeated, tag = "4")]
    pub(crate) slices: Vec<SliceRange>,
}

impl Layout {
    /// The slice with a workload; `None` if its endpoints are in the ServiceEndpoints.
    pub(crate) fn slice_of(&self, workload: &str) -> Option<&SliceRange> {
        let number = self.slices.partition_point(|range| range.from.as_str() <= workload).checked_sub(1)?;
        self.slices.get(number)
    }
}

/// The type of the endpoint resources.
pub(crate) fn service_endpoints() -> Gvk {
    Gvk::new("catalog", "v1", "ServiceEndpoints")
}

/// The type of services.
pub(crate) fn services() -> Gvk {
    Gvk::new("catalog", "v1", "Service")
}

/// The type of virtual addresses.
pub(crate) fn virtual_addresses() -> Gvk {
    Gvk::new("catalog", "v1", "VirtualAddress")
}

/// The name of the resource of a virtual address; the plugin makes it.
pub(crate) fn address_name(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => format!("v4-{:08x}", ip.to_bits()),
        IpAddr::V6(ip) => format!("v6-{:032x}", ip.to_bits()),
    }
}

/// The type of the routes of services.
pub(crate) fn service_routes() -> Gvk {
    Gvk::new("catalog", "v1", "ServiceRoutes")
}

/// The type of workloads.
pub(crate) fn workloads() -> Gvk {
    Gvk::new("catalog", "v1", "Workload")
}

/// The type of slices.
pub(crate) fn slices() -> Gvk {
    Gvk::new("catalog", "v1", "EndpointSlice")
}

/// Checks that the plugin serves the type. Without it, stored endpoints have the health of some earlier time.
///
/// # Errors
/// `Unavailable` if not, with the plugin's name and the remedy.
pub(crate) fn require_catalog(service: &ResourceService) -> Result<(), Error> {
    require(service, &service_endpoints(), "the health of services is unknown", "services cannot be found")
}

/// Checks that the plugin serves workloads.
///
/// # Errors
/// As those of [`require_catalog`].
pub(crate) fn require_workloads(service: &ResourceService) -> Result<(), Error> {
    require(service, &workloads(), "the policies of workloads are unknown", "policies cannot be found")
}

fn require(service: &ResourceService, kind: &Gvk, unknown: &str, absent: &str) -> Result<(), Error> {
    let fault = match service.types().get(&kind.to_pb()).map(|found| &found.owner) {
        Some(Owner::Missing(missing)) => {
            let (name, why) = (&missing.name, missing.why);
            format!("{unknown}: plugin {name:?}, which provides {kind}, {why}")
        }
        Some(Owner::Plugin(_) | Owner::Host) => return Ok(()),
        None => format!(
            "{kind} is not registered, so {absent}; enable the plugin catalog with \
             bundled = [\"catalog\"] under [plugins] in the configuration, and restart"
        ),
    };
    Err(Error::new(Code::Unavailable, fault))
}

/// Whether clients may be sent to the endpoint.
pub(crate) fn is_healthy(endpoint: &Endpoint) -> bool {
    endpoint.health() == Health::Passing
}
