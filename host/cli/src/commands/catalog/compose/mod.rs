//! A compose file as a source: a service for each of its services, and a workload for each container or publication.
//!
//! A service with published ports is reached at them: at the IP address of the port, or at the one of `--address`, by
//! the published number; its clients ask for the container's number. A second publication of a port is a further
//! workload. `network_mode: host` is reached at `--address` by the container's own numbers. A service without published
//! ports is reached by its container's address (`ipv4_address`) or name, at the ports that it exposes; each replica has
//! the name `PROJECT-SERVICE-NUMBER`. Labels become metadata, and health checks of the usual commands checks.
//!
//! Variables, `.env`, `extends`, `include` and profiles are resolved as compose does. An entry without a counterpart,
//! such as a UDP port, is left out, with a note of its line; a file that cannot be resolved is an error.
//!
//! Written by hand: the crates that read compose files are definitions alone, or new ones with a YAML reader of their
//! own (compose-lens, 0.3); this one has the bounds and the places of `mortise-text`.

mod command;
#[cfg(test)]
mod edge_tests;
mod files;
mod groups;
mod health;
mod node;
mod ports;
mod probe;
mod request;
mod service;
#[cfg(test)]
mod tests;
mod variables;

use std::{net::IpAddr, path::PathBuf};

use mortise_text::Source;

pub(super) use files::ComposeError;

use super::plan::LoadPlan;
use crate::env::Env;
use node::{Node, NodeValue};

/// Profile that stands for all of them.
const EVERY_PROFILE: &str = "*";

/// Choices of the user.
pub(super) struct Options<'o> {
    /// Default address of published ports.
    pub(super) address: IpAddr,
    /// Chosen profiles.
    pub(super) profiles: &'o [String],
    pub(super) env: Env<'o>,
}

/// Reads a compose file, and returns the paths of the files that it consists of besides.
///
/// # Errors
/// The file or one that it needs cannot be read, is malformed, or exceeds a bound.
pub(super) fn read(source: Source<'_>, options: &Options<'_>) -> Result<(LoadPlan, Vec<PathBuf>), ComposeError> {
    let mut plan = LoadPlan::default();
    let project = files::project(source, options.env, &mut plan)?;
    let profiles = |node: &Node| -> Vec<String> {
        let profiles = node.get("profiles").map(Node::items).unwrap_or_default();
        profiles.iter().filter_map(Node::scalar).map(str::to_owned).collect()
    };
    for wanted in options.profiles.iter().filter(|wanted| *wanted != EVERY_PROFILE) {
        if !project.services.values().any(|node| profiles(node).contains(wanted)) {
            return Err(ComposeError::Profile(wanted.clone()));
        }
    }
    for (name, node) in &project.services {
        let own = profiles(node);
        let is_chosen = |wanted: &String| wanted == EVERY_PROFILE || own.contains(wanted);
        if let Some(first) = own.first().filter(|_| !options.profiles.iter().any(is_chosen)) {
            let text = format!("it is not loaded without its profile: {}; give --profile {first}", own.join(" or "));
            plan.note(node.place.clone(), text);
            continue;
        }
        debug_assert!(matches!(node.value, NodeValue::Map(_) | NodeValue::Null), "files.rs refuses others");
        service::add(&mut plan, name, node, &project.name, options);
    }
    Ok((plan, project.files))
}
