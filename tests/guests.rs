//! guests

mod common;
