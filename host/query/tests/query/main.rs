//! Queries, from their texts to the resources that they find.
#![allow(clippy::unwrap_used, reason = "tests")]

mod changes;
mod common;
mod fact;
mod filter;
mod hostile;
mod in_memory;
mod mask;
mod model;
mod order;
mod page;
mod path;
mod selector;
mod superset;
mod update;
