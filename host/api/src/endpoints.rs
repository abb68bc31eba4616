//! Access to the endpoints of services that the plugin `catalog` maintains: `catalog.v1.ServiceEndpoints`. The
//! destination API and DNS read them through these functions.

use mortise_resource::{Code, Error, types::Gvk};
use mortise_service::ResourceService;
use prost::Message as _;

use crate::catalog::{Endpoint, Health, ServiceEndpoints};

/// The type of the endpoint resources.
pub(crate) fn service_endpoints() -> Gvk {
    Gvk::new("catalog", "v1", "ServiceEndpoints")
}

/// Checks that a plugin serves the type.
///
/// # Errors
/// `Unavailable` if not, with the plugin's name and the setting that enables it.
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

/// Decodes the value of the `data` of a resource of that type.
///
/// # Errors
/// The value is of another message.
pub(crate) fn decode(data: &[u8]) -> Result<ServiceEndpoints, prost::DecodeError> {
    ServiceEndpoints::decode(data)
}

/// Whether clients may be sent to the endpoint.
pub(crate) fn is_healthy(endpoint: &Endpoint) -> bool {
    endpoint.health() == Health::Passing
}
