//! mutate_and_validate

mod common;
