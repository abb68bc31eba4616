//! watch_list

mod common;
