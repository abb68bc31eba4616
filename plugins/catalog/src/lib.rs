//! Service discovery: workloads run on hosts, services select them, and the endpoints of a service are computed.
//!
//! Bundled with Mortise under the name `catalog`, and switched on by `mortise dev`; docs/service-discovery.md describes
//! its use. The destination API and DNS are translations of `catalog.v1.ServiceEndpoints`.
//!
//! # Contract
//! - `rules` checks the contents of the types, `defaults` fills in their defaults.
//! - `selection` finds the workloads that a service selects, and the services that select a workload.
//! - `controllers::endpoints` keeps the ServiceEndpoints of every Service that has a selector, `controllers::slices`
//!   the slices of large ones; `controllers::addresses` keeps the virtual addresses of services, `controllers::routes`
//!   their routes; `controllers::checks` has the host perform the health checks of workloads.
//! - `settings` has the ranges of virtual addresses.
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
mod settings;
#[cfg(test)]
mod tests;

mortise_plugin::include_proto!(pub mod proto);
pub(crate) use kinds::{ADDRESS, ENDPOINTS, HTTP_ROUTE, ROUTES, SERVICE, SLICE, WORKLOAD};

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
            .short_names(&["wl", "workloads"])
            .indexed_fields(&["data.addresses.host"]),
        &ResourceType::of(ENDPOINTS, Scope::Namespace)
            .key_rules()
            .short_names(&["endpoints", "ep"])
            .indexed_fields(&["data.endpoints.address"]),
        &ResourceType::of(SLICE, Scope::Namespace)
            .key_rules()
            .short_names(&["slices"])
            .indexed_fields(&["data.endpoints.address"]),
        &ResourceType::of(ADDRESS, Scope::Partition)
            .validate(rules::addresses::address)
            .key_rules()
            .columns(&[("ADDRESS", "data.address"), ("NAMESPACE", "data.namespace"), ("SERVICE", "data.service")])
            .short_names(&["vip", "vips"]),
        &ResourceType::of(HTTP_ROUTE, Scope::Namespace)
            .mutate(defaults::route)
            .validate(rules::routes::route)
            .key_rules()
            .columns(&[("SERVICE", "data.parent.service")])
            .short_names(&["httproutes"]),
        &ResourceType::of(ROUTES, Scope::Namespace).key_rules(),
    ],
)
.check_settings(settings::check)
.controllers(&[
    &controllers::endpoints::CONTROLLER,
    &controllers::slices::CONTROLLER,
    &controllers::addresses::CONTROLLER,
    &controllers::routes::CONTROLLER,
    &controllers::routes::STATUSES,
    &controllers::checks::CONTROLLER,
])
.requests(&[
    GrantRequest::http("http://*", "performs the HTTP and gRPC checks of workloads, wherever they are"),
    GrantRequest::http("https://*", "performs the HTTPS and gRPC checks of workloads, wherever they are"),
    GrantRequest::tcp("*", "performs the TCP checks of workloads, wherever they are"),
]);
mortise_plugin::export!(PLUGIN: mutating, validating, authorizing, configuring, controlling, mapping);
