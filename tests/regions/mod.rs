//! Regions: the policy on one server, and replicas between several servers (`servers`).

mod history;
mod policy;
mod servers;
mod sync;
