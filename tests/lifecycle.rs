//! lifecycle

mod common;
