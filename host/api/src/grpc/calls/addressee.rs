//! The store and the region that a call names: other servers refuse it.

use ::http::{HeaderMap, HeaderName};
use mortise_resource::{
    Code, Error,
    grpc::{REGION_HEADER, STORE_HEADER},
};
use mortise_service::ResourceService;

/// Refuses a call for another store or another region: a peer that was identified may have been replaced since, also by
/// a server of another region on a copy of its store.
///
/// # Errors
/// `FailedPrecondition`, with both ids or both regions.
pub(super) fn check(service: &ResourceService, headers: &HeaderMap) -> Result<(), Error> {
    static STORE: HeaderName = HeaderName::from_static(STORE_HEADER);
    static REGION: HeaderName = HeaderName::from_static(REGION_HEADER);
    if let Some(wanted) = headers.get(&STORE) {
        let here = service.backend().store_id().to_string();
        if wanted.as_bytes() != here.as_bytes() {
            let wanted = String::from_utf8_lossy(wanted.as_bytes());
            return Err(for_another(&format!("store {wanted:?}, and the store here is {here}")));
        }
    }
    if let Some(wanted) = headers.get(&REGION) {
        let here = service.region().unwrap_or_default();
        if wanted.as_bytes() != here.as_bytes() {
            let wanted = String::from_utf8_lossy(wanted.as_bytes());
            return Err(for_another(&format!("region {wanted:?}, and the region here is {here:?}")));
        }
    }
    Ok(())
}

fn for_another(addressee: &str) -> Error {
    Error::new(Code::FailedPrecondition, format!("the call is for the {addressee}; identify the server again"))
}
