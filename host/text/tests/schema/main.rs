//! JSON Schema, OpenAPI and samples, as made of the descriptors of types.
#![recursion_limit = "256"]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;
mod json_schema;
mod openapi;
mod sample;
