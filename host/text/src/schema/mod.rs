//! Descriptions of types for people and tools, made from protobuf descriptors: JSON Schema, OpenAPI, and commented
//! samples in YAML.
//!
//! All of it is about data in the JSON mapping of protobuf 3, in its canonical form: fields in lower camel case, 64-bit
//! numbers as strings or numbers, enums by name or number, bytes as base64. What the server prints is valid by these
//! schemas, and what is valid by them the server can read; it also reads the field names of the `.proto` file and
//! `null` for a field that is not there, which the schemas leave out. Comments of the `.proto` file become descriptions
//! where the descriptors have them.
//!
//! No I/O, no state; the cost is in the size of the descriptors, a millisecond or so for a server full of types.

mod comments;
mod json_schema;
mod openapi;
mod sample;

pub use comments::{Commented, comment};
pub use json_schema::{Definitions, json_schema};
pub use openapi::{Api, TypeDoc, openapi};
pub use sample::sample;
