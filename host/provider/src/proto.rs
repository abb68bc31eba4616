//! The generated messages and services: the provider protocol, and the services that core expects of each process that
//! it starts.

/// Provider protocol 6.10, without deferred changes, configurations from states and stores of states.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the .proto file has the documentation"
)]
pub mod tfplugin6 {
    include!(concat!(env!("OUT_DIR"), "/tfplugin6.rs"));
}

/// Services that core expects of a process.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the .proto file has the documentation"
)]
pub mod plugin {
    include!(concat!(env!("OUT_DIR"), "/plugin.rs"));
}
