//! Black-box tests: the binary, over the wire. One program, since each would hold the whole of the server's messages
//! and its clients. A folder for each feature, a file for each subject of it; `support` has what they share.
//! `cargo test -p mortise --test wire regions::` runs a folder.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests"
)]

mod authoring;
mod catalog;
mod cli;
mod controllers;
mod destination;
mod grpc;
mod hooks;
mod http;
mod ownership;
mod plugins;
mod provider;
mod query;
mod regions;
mod reload;
mod resource;
mod security;
mod server;
mod store;
mod support;
mod tenancy;
