//! What `fuzz/` calls: names as they come over the wire.

use mortise_service::registry::Registry;

use crate::{dns, grpc::destination, http};

/// Reads a text as path and query of a request.
pub fn paths(registry: &Registry, text: &str) {
    http::fuzz(registry, text);
}

/// Reads a text as what the destination API is asked for, and as a name of the DNS.
pub fn authorities(text: &str) {
    destination::fuzz(text);
    dns::fuzz(text);
}
