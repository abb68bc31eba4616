//! The crate from outside: texts in, resources and messages out. One program, a module for each subject.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub,
    reason = "a test"
)]

mod common;
mod hcl;
mod hostile;
mod json;
mod message;
mod print;
mod round_trip;
mod stream;
mod ui;
mod yaml;
