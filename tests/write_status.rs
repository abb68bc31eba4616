//! write_status

mod common;
