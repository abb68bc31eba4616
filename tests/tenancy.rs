//! tenancy

mod common;
