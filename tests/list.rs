//! list

mod common;
