//! reflection

mod common;
