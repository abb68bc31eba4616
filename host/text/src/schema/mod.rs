//! Descriptions of types for people and tools, made from protobuf descriptors: JSON Schema, OpenAPI, and commented
//! samples in YAML.
//!
//! All of them describe data in the JSON mapping of protobuf 3, in its canonical form: fields in lower camel case,
//! 64-bit numbers as strings or numbers, enums by name or number, bytes as base64. The server's output is valid by
//! these schemas, and the server can read all valid data. It also reads the field names of the `.proto` file, and
//! `null` for an absent field, which the schemas leave out. Comments of the `.proto` file become descriptions if the
//! descriptors have them.
//!
//! No I/O, no state; the cost is in proportion to the descriptors, a millisecond or so for a server full of types.

mod comments;
mod json_schema;
mod openapi;
mod sample;

pub use comments::{Commented, comment};
pub use json_schema::{Definitions, json_schema};
pub use openapi::{Api, RpcDoc, TypeDoc, Upload, openapi, rpc_openapi};
pub use sample::sample;
