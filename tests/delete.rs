//! delete

mod common;
