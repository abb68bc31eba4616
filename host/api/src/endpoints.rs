//! The endpoints of services, as the plugin `catalog` keeps them: `catalog.v1.ServiceEndpoints`. What translates them
//! for others (the destination API) reads them by these functions.

use mortise_resource::{Code, Error, types::Gvk};
use mortise_service::ResourceService;
use prost::Message as _;

use crate::catalog::{Endpoint, Health, ServiceEndpoints};

/// The type of the resources.
pub(crate) fn service_endpoints() -> Gvk {
    Gvk::new("catalog", "v1", "ServiceEndpoints")
}

/// Says that the type is there.
///
/// # Errors
/// `Unavailable`: no plugin serves it. Says which does, and how to switch it on.
pub(crate) fn require_catalog(service: &ResourceService) -> Result<(), Error> {
    let kind = service_endpoints();
    match service.types().get(&kind.to_pb()) {
        Some(_) => Ok(()),
        None => Err(Error::new(
            Code::Unavailable,
            format!(
                "{kind} is not registered, so services cannot be found; enable the plugin catalog with \
                 bundled = [\"catalog\"] under [plugins] in the configuration, and restart"
            ),
        )),
    }
}

/// Reads the value of the `data` of a resource of that type.
///
/// # Errors
/// It is of another message.
pub(crate) fn decode(data: &[u8]) -> Result<ServiceEndpoints, prost::DecodeError> {
    ServiceEndpoints::decode(data)
}

/// Whether clients are to be sent to it.
pub(crate) fn is_healthy(endpoint: &Endpoint) -> bool {
    endpoint.health() == Health::Passing
}
