//! Entry points for `fuzz/`: parsers of names from the network.

use mortise_service::registry::Registry;

use crate::{dns, grpc::destination, http};

/// Parses a text as path and query of a request.
pub fn paths(registry: &Registry, text: &str) {
    http::fuzz(registry, text);
}

/// Parses a text as a target of the destination API and as a DNS name.
pub fn authorities(text: &str) {
    destination::fuzz(text);
    dns::fuzz(text);
}
