//! Service discovery: workloads run on hosts, services select them, and the endpoints of a service are computed.
//!
//! Bundled with Mortise under the name `catalog`, and switched on by `mortise dev`; docs/service-discovery.md describes
//! its use. The destination API and DNS are translations of `catalog.v1.ServiceEndpoints`.
//!
//! # Contract
//! - `rules` checks the contents of the types, `defaults` fills in their defaults.
//! - `selection` finds the workloads that a service selects, and the services that select a workload.
//! - `controllers::endpoints` keeps the ServiceEndpoints of every Service that has a selector, `controllers::slices`
//!   the slices of large ones; `controllers::checks` has the host perform the health checks of workloads.
//!
//! # Cost
//! A change of a workload looks up the services that select it, in indexes: one lookup for its name, one for each
//! prefix of its name, one for each pair of its metadata. Of each service, the slice with the workload is then computed
//! again, from its own workloads.
//!
//! # Limits
//! Endpoints are not checked when they are written: thousands would take more fuel than a write has. The controller
//! makes them from checked values, and readers skip a malformed address. `controllers::layout` has the bounds of
//! slices.

use mortise_plugin::{GrantRequest, Plugin, ResourceType, Scope};

mod compute;
mod controllers;
mod defaults;
mod health;
mod kinds;
mod rules;
mod selection;
#[cfg(test)]
mod tests;

mortise_plugin::include_proto!(pub mod proto);
pub(crate) use kinds::{ENDPOINTS, SERVICE, SLICE, WORKLOAD};

static PLUGIN: Plugin = Plugin::new(
    "catalog",
    env!("CARGO_PKG_VERSION"),
    proto::DESCRIPTORS,
    &[
        &ResourceType::of(SERVICE, Scope::Namespace)
            .mutate(defaults::service)
            .validate(rules::service)
            .key_rules()
            .columns(&[("PREFIXES", "data.selector.prefixes"), ("NAMES", "data.selector.names")])
            .short_names(&["svc", "services"]),
        &ResourceType::of(WORKLOAD, Scope::Namespace)
            .mutate(defaults::workload)
            .validate(rules::workload)
            .key_rules()
            .columns(&[("ZONE", "data.zone"), ("WEIGHT", "data.weight")])
            .short_names(&["wl", "workloads"]),
        &ResourceType::of(ENDPOINTS, Scope::Namespace)
            .key_rules()
            .short_names(&["endpoints", "ep"])
            .indexed_fields(&["data.endpoints.address"]),
        &ResourceType::of(SLICE, Scope::Namespace)
            .key_rules()
            .short_names(&["slices"])
            .indexed_fields(&["data.endpoints.address"]),
    ],
)
.controllers(&[&controllers::endpoints::CONTROLLER, &controllers::slices::CONTROLLER, &controllers::checks::CONTROLLER])
.requests(&[
    GrantRequest::http("http://*", "performs the HTTP and gRPC checks of workloads, wherever they are"),
    GrantRequest::http("https://*", "performs the HTTPS and gRPC checks of workloads, wherever they are"),
    GrantRequest::tcp("*", "performs the TCP checks of workloads, wherever they are"),
]);
mortise_plugin::export!(PLUGIN: mutating, validating, authorizing, controlling, mapping);
