//! write

mod common;
