//! cascade

mod common;
