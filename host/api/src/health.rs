//! The health service, as generated. Its client is for tests.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated; the .proto file has the documentation"
)]

include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.rs"));
