//! The runs of histories against servers.

mod access;
mod backup;
mod client;
mod convert;
mod history;
mod http;
mod sse;
mod ties;
mod watcher;
mod workload;
mod world;

pub(crate) mod faults;
pub(crate) mod histories;
pub(crate) mod planted;
pub(crate) mod server;
pub(crate) mod soak;
