//! Black-box tests: the binary, over the wire. They are one program, the test target `wire` of the package `mortise`,
//! since each would contain all messages and clients of the server. Each feature has a folder, each subject of the
//! feature a file or, if it is long, a folder of files; `support` has shared helpers.
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
mod cluster;
mod consul;
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
mod structure;
mod support;
mod tenancy;
