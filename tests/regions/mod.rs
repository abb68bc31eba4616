//! Regions: the policy on one server, and replicas between several servers (`servers`).

mod bounds;
mod history;
mod peers;
mod policy;
mod servers;
mod sync;
