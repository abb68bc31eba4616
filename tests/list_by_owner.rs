//! list_by_owner

mod common;
