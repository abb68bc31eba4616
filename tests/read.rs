//! read

mod common;
