//! Plugins as a whole: the contract, manifests, grants, settings, secrets, trust, service, observability.

mod changes;
mod compiled;
mod contract;
mod descriptor_chains;
mod grant_requests;
mod manifests;
mod observability;
mod registries;
mod route_checks;
mod routes;
mod secrets;
mod service;
mod settings;
mod trust;
mod upgrade;
