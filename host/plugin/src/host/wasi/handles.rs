//! The resources of WASI, as handles whose types are made at run time.

use wasmtime::component::{ResourceDynamic, Val};

use super::stub;
use crate::host::state::State;

/// Resources of the linked packages; the number of a handle's type is its index here.
const RESOURCES: [&str; 25] = [
    "error",
    "pollable",
    "input-stream",
    "output-stream",
    "terminal-input",
    "terminal-output",
    "descriptor",
    "directory-entry-stream",
    "network",
    "tcp-socket",
    "udp-socket",
    "incoming-datagram-stream",
    "outgoing-datagram-stream",
    "resolve-address-stream",
    "fields",
    "incoming-request",
    "outgoing-request",
    "request-options",
    "response-outparam",
    "incoming-response",
    "incoming-body",
    "future-trailers",
    "outgoing-response",
    "outgoing-body",
    "future-incoming-response",
];

/// Index of a resource in [`RESOURCES`]; that of an unknown name matches no handle.
pub(super) fn kind(resource: &str) -> u32 {
    // Aliases in `http/types`.
    let resource = match resource {
        "headers" | "trailers" => "fields",
        "io-error" => "error",
        same => same,
    };
    let place = RESOURCES.iter().position(|known| *known == resource).unwrap_or(RESOURCES.len());
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// Makes a handle.
pub(super) fn handle(
    store: &mut wasmtime::StoreContextMut<'_, State>,
    resource: &str,
    rep: u32,
) -> wasmtime::Result<Val> {
    if let Some(theirs) = stub::handle(store, resource, rep)? {
        return Ok(theirs);
    }
    Ok(Val::Resource(ResourceDynamic::new_own(rep, kind(resource)).try_into_resource_any(store)?))
}
