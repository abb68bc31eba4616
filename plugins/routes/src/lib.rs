//! Routes of an edge proxy: requests for a hostname and a path prefix go to upstreams.
//!
//! Bundled with Mortise under the name `routes`; README.md describes how to switch it on. `edge.v1.Route` is reconciled
//! into files that nginx includes, one for each Route, in the directory granted as `nginx`.
//!
//! # Contract
//! - `rules` checks the contents of a Route, and refuses everything with a special meaning in nginx's language. `check`
//!   reads the text of each file, with a grammar of its own, before the text replaces the old file.
//! - `plan` decides conflicts: the older of two Routes keeps a path, and the file of a hostname's oldest Route
//!   has the `server` block for all of them.
//! - `controller` writes the files, and reports in the status `edge.v1/routes`.
//! - `adopt` makes a Route from a file whose Route was lost; `functions` has functions for expressions.
//! - `services` keeps the upstreams of Routes that name a service of the plugin `catalog`, as `edge.v1.RouteUpstreams`.
//!
//! # Limits
//! A client that may write Routes may publish anything that nginx can reach. Routes of all namespaces share nginx's
//! hostnames.

use mortise_plugin::{Diagnostics, GrantRequest, Plan, Plugin, ResourceType, Scope, Typed, field};

mod adopt;
mod check;
mod controller;
mod file;
mod functions;
mod kinds;
mod lookup;
mod plan;
mod rules;
mod services;
mod settings;
#[cfg(test)]
mod tests;

mortise_plugin::include_proto!(pub mod proto);
use proto::edge::v1::{Route, RouteUpstreams};
use settings::Nginx;

pub(crate) use kinds::{ENDPOINTS, ROUTE, UPSTREAMS};

static PLUGIN: Plugin = Plugin::new(
    "routes",
    env!("CARGO_PKG_VERSION"),
    proto::DESCRIPTORS,
    &[
        &ResourceType::of(ROUTE, Scope::Namespace)
            .mutate(defaults)
            .validate(validate)
            .plan(plan_route)
            .import(adopt::import)
            .key_rules()
            .columns(&[("HOSTNAME", "data.hostname"), ("PATH", "data.path_prefix")])
            .short_names(&["route", "routes"]),
        &ResourceType::of(UPSTREAMS, Scope::Namespace).validate(validate_upstreams).key_rules(),
    ],
)
.check_settings(settings::check)
.functions(&functions::FUNCTIONS)
.controllers(&[&controller::ROUTES, &services::SERVICES])
.requests(&[GrantRequest::directory(
    controller::DIRECTORY,
    "writes the files that nginx includes, one for each Route",
)]);
mortise_plugin::export!(
    PLUGIN: mutating,
    validating,
    authorizing,
    configuring,
    controlling,
    mapping,
    planning,
    importing,
    functions
);

fn defaults(route: &mut Typed<Route>) -> Result<(), Diagnostics> {
    if route.data.path_prefix.is_empty() {
        "/".clone_into(&mut route.data.path_prefix);
    }
    for upstream in &mut route.data.upstreams {
        if upstream.weight == 0 {
            upstream.weight = 1;
        }
    }
    Ok(())
}

fn validate(route: &Typed<Route>, _: Option<&Typed<Route>>, diagnostics: &mut Diagnostics) {
    rules::judge(&route.data, diagnostics);
    if Nginx::of(&mortise_plugin::settings()).resolver.is_none() {
        rules::warn_of_names(&route.data, diagnostics);
    }
}

/// Replaces a Route that gets another hostname or path. The older of two Routes has a path, and the uid has the age. A
/// Route that moved in place would keep its age, and could take the path from a younger Route that had it before; the
/// replacement is the youngest.
fn plan_route(route: &Typed<Route>, prior: Option<&Typed<Route>>, _kept: Option<&[u8]>, plan: &mut Plan<Route>) {
    let Some(prior) = prior else { return };
    if prior.data.hostname != route.data.hostname {
        plan.replace(field("hostname"));
    }
    if prior.data.path_prefix != route.data.path_prefix {
        plan.replace(field("path_prefix"));
    }
}

fn validate_upstreams(
    computed: &Typed<RouteUpstreams>,
    _: Option<&Typed<RouteUpstreams>>,
    diagnostics: &mut Diagnostics,
) {
    rules::check_upstreams(&computed.data.upstreams, rules::MAX_COMPUTED_UPSTREAMS, diagnostics);
}
